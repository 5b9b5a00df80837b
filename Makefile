# cag: build, test and install.  `make help` lists the targets.
#
# One file, not recursive.  Objects live in build/<mode>/; sources are found by
# wildcard, so a new file needs no edit here.  CC, CFLAGS, LDFLAGS are honoured
# and appended to, never replaced.  V=1 shows the commands.

MODE    ?= release
PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
INCDIR  ?= $(PREFIX)/include
MANDIR  ?= $(PREFIX)/share/man
DOCDIR  ?= $(PREFIX)/share/doc/cag
PCDIR   ?= $(LIBDIR)/pkgconfig
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
PYTHON  ?= python3
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
say     = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n')

B       := build/$(MODE)
VERSION := $(shell sed -n 's/^.define CAG_VERSION "\(.*\)"/\1/p' include/cag.h)
SONAME  := libcag.so.$(firstword $(subst ., ,$(VERSION)))
# a tarball carries the id in .git-id
GIT_ID  := $(shell (if [ -e .git ]; then git describe --always --dirty; \
              else cat .git-id; fi || echo unknown) 2>/dev/null)

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes \
       -Wmissing-prototypes -Wwrite-strings -Wcast-qual
ifeq ($(MODE),fuzz)
ifeq ($(origin CC),default)
CC = clang
endif
endif
CFLAGS ?= -O2 -g
CAG_CFLAGS = -std=c11 -D_GNU_SOURCE -ffp-contract=off -fvisibility=hidden \
             -fPIC -pthread $(WARN) $(WERROR) -Iinclude -Ilibcore -I.
ifeq ($(MODE),san)
SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
      -fno-omit-frame-pointer -O1
else ifeq ($(MODE),tsan)
SAN = -fsanitize=thread -O1
else ifeq ($(MODE),fuzz)
SAN = -fsanitize=fuzzer-no-link,address,undefined \
      -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1
endif
# a build that is to be used is hardened; who sets _FORTIFY_SOURCE keeps that
ifeq ($(SAN),)
HARDEN = -fstack-protector-strong $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) \
         $(CFLAGS)),,$(if $(filter -O -O1 -O2 -O3 -Os -Og,$(CFLAGS)),\
         -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LD = -Wl,-z,relro,-z,now
endif
CORE_LIBS = -lzstd -lcrypto -lxxhash -lyaml -lpcre2-8 -lutf8proc -ljansson \
            -lm -ldl -pthread

LIB_SRC  := $(filter-out %_cuda.c,$(wildcard libcore/*/*.c libcore/*/*/*.c kernels/*.c kernels/*/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o)
CMD_ALL  := $(wildcard cmd/*.c cmd/*/*.c)
TOOLS    := $(patsubst cmd/%.c,%,$(wildcard cmd/cag-*.c))
CMD_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(filter-out cmd/cag-%.c cmd/serve/%.c,$(CMD_ALL)))
SERVE_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(filter cmd/serve/%.c,$(CMD_ALL))) $(B)/obj/serve_page.o
UNIT_SRC := $(wildcard tests/unit/test_*.c tests/kernels/test_*.c \
              tests/model/test_*.c tests/fault/test_*.c)
UNIT_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(UNIT_SRC))
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
REPLAY   := $(patsubst tests/fuzz/fuzz_%.c,build/san/replay/%,$(FUZZ_SRC))
BATS     := $(wildcard tests/cli/*.bats)
LINT     := $(wildcard tests/lint/*.sh)
SHIM_PLUGIN := $(if $(filter release san,$(MODE)),$(B)/shim/libcag-cuda.so)
# run on the host shim, always under ASan and UBSan
CUDA_TEST := $(patsubst tests/cuda/%,build/san/tests/cuda/%,$(basename \
               $(wildcard tests/cuda/test_*.c tests/cuda/test_*.cc)))
NVCC     ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
MAN      := $(wildcard man/*.[1-8])
BIN      := $(TOOLS:%=$(B)/%)

DEMO_MODEL  = models/SmolLM2-135M-Instruct.Q4_1.gguf

.DELETE_ON_ERROR:
.SECONDARY:

SHARED := $(if $(filter release,$(MODE)),$(B)/$(SONAME))
# "make NVCC=" leaves it out
PLUGIN := $(if $(NVCC),$(if $(filter release,$(MODE)),$(B)/libcag-cuda.so))

all: $(BIN) $(B)/libcag.a $(SHARED) $(PLUGIN) links ## build the tools, the library and, where nvcc is, the CUDA plugin

# build/cag-build and friends are the release tools, whatever else is built
links: $(BIN)
ifeq ($(MODE),release)
	$(Q)for t in $(TOOLS); do ln -sf release/$$t build/$$t; done
endif

$(B)/obj/%_avx2.o:   ISA = -mavx2 -mfma -mf16c
$(B)/obj/%_avx512.o: ISA = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(B)/obj/%_avx512bf16.o: ISA = -mavx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(B)/obj/%_avxvnni.o: ISA = -mavxvnni -mavx2 -mfma -mf16c
$(B)/obj/%_avx512vnni.o: ISA = -mavx512vnni -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(B)/obj/%_amx.o: ISA = -mprfchw -mamx-tile -mamx-bf16 -mavx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(B)/obj/kernels/%.o: OPT = -O3
# no reader of outside bytes is in kernels/: sizes are checked before a call,
# so that a guard at each would only cost; and clang takes minutes for them
$(B)/obj/kernels/%.o: HARDEN =
ifeq ($(MODE),fuzz)
$(B)/obj/kernels/%.o: SAN =
endif

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CAG_CFLAGS) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(OPT) $(SAN) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<

# where an installed plugin is looked for, last of all
$(B)/obj/libcore/engine/backend_load.o: DEFS = -DCAG_LIBDIR='"$(LIBDIR)"'

# the git id is only in one object, rebuilt when it changes
$(B)/obj/cmd/cli/opt_help.o: DEFS = -DCAG_GIT_ID='"$(GIT_ID)"'
$(B)/obj/cmd/cli/opt_help.o: $(B)/git-id
$(B)/git-id: FORCE
	@mkdir -p $(@D)
	@echo '$(GIT_ID)' | cmp -s - $@ || echo '$(GIT_ID)' > $@

$(B)/libcag.a: $(LIB_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

# hidden but for cag_*; nothing may be left unresolved
$(B)/$(SONAME): $(LIB_OBJ) libcore/libcag.map
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(HARDEN_LD) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) \
	    -Wl,--version-script=libcore/libcag.map -Wl,-z,defs -o $@ $(LIB_OBJ) \
	    $(CORE_LIBS)

# what the programs share; an archive, so that each takes only what it uses
$(B)/libcmd.a: $(CMD_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

# the chat page of cag-serve, as an array of bytes
$(B)/gen/serve_page.c: cmd/serve/page.html
	@mkdir -p $(@D)
	$(Q){ echo '#include "cmd/serve/page.h"'; \
	    echo 'const unsigned char serve_page[] = {'; \
	    od -An -v -tx1 $< | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	    echo '};'; echo 'const size_t serve_page_size = sizeof serve_page;'; } > $@
$(B)/obj/serve_page.o: $(B)/gen/serve_page.c cmd/serve/page.h
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CAG_CFLAGS) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(SAN) -c -o $@ $<

# the parts of cag-serve, the only program that opens a socket
$(B)/libserve.a: $(SERVE_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

LIBS_cag-ask = -ledit
LIBS_cag-serve = -levent_extra -levent_core
$(B)/cag-serve: $(B)/libserve.a

$(B)/cag-%: $(B)/obj/cmd/cag-%.o $(B)/libcmd.a $(B)/libcag.a
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(HARDEN_LD) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	    $(filter %libserve.a,$^) $(filter %libcmd.a,$^) $(filter %libcag.a,$^) \
	    $(CORE_LIBS) $(LIBS_$(@F))

# the tests of cmd/ see its objects, but no program's main
$(B)/tests/unit/test_serve_api $(B)/tests/unit/test_serve_keys: $(B)/libserve.a
$(B)/tests/unit/test_opt $(B)/tests/unit/test_ui $(B)/tests/unit/test_ask $(B)/tests/unit/test_bench_axes: $(B)/libcmd.a

$(B)/tests/%: $(B)/obj/tests/%.o $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	    $(filter %libserve.a,$^) $(filter %libcmd.a,$^) $(filter %libcag.a,$^) \
	    -lcmocka $(CORE_LIBS)

tests: $(UNIT_BIN) $(B)/check_cuda $(SHIM_PLUGIN) ## build the test programs

# measures a GPU; built here, run there
CHECK_CUDA := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/cuda/check_*.c)) $(B)/libcag.a
$(B)/check_cuda: $(CHECK_CUDA)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $^ -lcmocka $(CORE_LIBS) \
	    -Wl,-rpath,'$$ORIGIN/lib'

# --- CUDA -----------------------------------------------------------------
#
# Two builds of the same .cu files: by nvcc into the plugin libcag-cuda.so,
# and by g++ with a shim for the tests, which need no toolkit and no GPU.
# Nothing else in the tree sees a CUDA header.

CU_SRC  := $(wildcard kernels/cuda/*_cuda.cu)
CU_C    := $(wildcard kernels/cuda/*_cuda.c libcore/engine/cuda/*_cuda.c)
CU_OBJ   = $(CU_SRC:%.cu=$(B)/obj/cuda$(CU_TAG)/%.o)
# PTX of 90, for what lies between 100 and 120, and of the newest listed: what
# other devices compile at their first use
CU_ALL  := 75 80 86 89 90 100 120
CUDA_SM ?= $(CU_ALL)
CU_PTX   = $(sort $(filter 90,$(CUDA_SM)) $(lastword $(CUDA_SM)))
GENCODE  = $(foreach a,$(CUDA_SM),-gencode arch=compute_$a,code=sm_$a) \
           $(foreach a,$(CU_PTX),-gencode arch=compute_$a,code=compute_$a)
# another list has objects and a gpu-tree of its own: make gpu-tree CUDA_SM=90
CU_TAG   = $(if $(filter-out $(CU_ALL),$(CUDA_SM))$(filter-out $(CUDA_SM),$(CU_ALL)),-$(subst $(eval) ,-,$(strip $(CUDA_SM))))
NVFLAGS  = -std=c++17 -O3 -I. $(GENCODE) -Werror all-warnings -Xptxas -v \
           -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra

print-nvcc:
	@echo $(NVCC)

# what ptxas says (registers, spills) is kept beside the object
$(B)/obj/cuda$(CU_TAG)/%.o: %.cu
	@mkdir -p $(@D)
	$(say) NVCC $<
	$(Q)$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2> $(@:.o=.ptxas) \
	    || { grep -v '^ptxas info' $(@:.o=.ptxas) >&2; rm -f $@; exit 1; }
	@sed -n '/error\|warning/p' $(@:.o=.ptxas) >&2

$(B)/cuda-sm: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_SM)' | cmp -s - $@ || echo '$(CUDA_SM)' > $@

cuda: $(B)/libcag-cuda.so ## the CUDA plugin; needs nvcc (CUDA 12.8 or 13)
ifeq ($(NVCC),)
	@echo "make cuda: nvcc is not in PATH and not in /usr/local/cuda/bin" >&2; exit 69
endif

# cudart static, cuBLAS dynamic; the plugin's own copy of the library
PLUGIN_OBJ = $(CU_OBJ) $(CU_C:%.c=$(B)/obj/%.o) $(B)/libcag.a
LINK_PLUGIN = $(NVCC) $(GENCODE) -shared -cudart static -o $@ $(PLUGIN_OBJ) -lcublas \
    -Xlinker --exclude-libs=ALL -Xlinker --no-undefined \
    -Xlinker -rpath='$$ORIGIN/lib' \
    -Xlinker -rpath=$(abspath $(dir $(NVCC))../lib64)
$(B)/libcag-cuda.so: $(PLUGIN_OBJ) $(B)/cuda-sm
	$(say) NVLINK $@
	$(Q)$(LINK_PLUGIN) $(patsubst -pthread,-lpthread,$(CORE_LIBS))

# make check-cuda elsewhere: all it runs in one directory below 60 MiB, with the
# libraries that a machine with a GPU may lack linked in, or, where there is no
# archive of one, beside it.  cuBLAS is that machine's.
GPU      = $(B)/gpu
GPU_DIR := $(B)/gpu-bin$(CU_TAG)
GPU_SYS  = -lm -ldl -pthread
GPU_LIBS = $(foreach l,$(filter-out $(GPU_SYS),$(CORE_LIBS)),\
             $(or $(filter /%,$(shell $(CC) -print-file-name=lib$(l:-l%=%).a)),$l)) \
           $(patsubst -pthread,-lpthread,$(GPU_SYS))
GPU_STD  = -Xcompiler -static-libstdc++,-static-libgcc
GPU_TEST := $(addprefix $(GPU_DIR)/,test_cuda_kernels test_cuda_attention test_cuda_speed probe_cuda)
GPU_BIN  := $(GPU_TEST) $(GPU_DIR)/check_cuda $(GPU_DIR)/libcag-cuda.so
$(GPU_DIR)/test_cuda_kernels: $(B)/obj/shim/tests/cuda/test_cuda_kernels.o
$(GPU_DIR)/test_cuda_attention: $(B)/obj/shim/tests/cuda/test_cuda_attention.o
$(GPU_DIR)/test_cuda_speed: $(B)/obj/shim/tests/cuda/test_cuda_speed.o
$(GPU_DIR)/probe_cuda: $(B)/obj/tests/cuda/probe_cuda.o
# the kernels by themselves: no engine
$(GPU_TEST): $(B)/obj/tests/cuda/device_control.o $(CU_OBJ) \
    $(patsubst %.c,$(B)/obj/%.o,$(filter kernels/%,$(CU_C))) $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) NVLINK $@
	$(Q)$(NVCC) $(GENCODE) -cudart static $(GPU_STD) -o $@ $(filter $(B)/obj/%,$^) \
	    $(B)/libcag.a -lcublas $(GPU_LIBS) -Xlinker -rpath='$$ORIGIN/lib'
# Debian's libjansson.a is not position-independent
$(GPU_DIR)/libcag-cuda.so: $(PLUGIN_OBJ)
	@mkdir -p $(@D)
	$(say) NVLINK $@
	$(Q)$(LINK_PLUGIN) $(GPU_STD) $(GPU_LIBS:%/libjansson.a=-ljansson)
$(GPU_DIR)/check_cuda: $(CHECK_CUDA)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(GPU_LIBS) \
	    -Wl,-rpath,'$$ORIGIN/lib'

gpu-tree: $(GPU_BIN) ## what check-cuda runs, to carry to a machine with a GPU
	@rm -rf $(GPU) && mkdir -p $(GPU)/lib
	@for f in $^; do strip -o $(GPU)/$${f##*/} $$f || exit 1; done
	@ldd $(GPU_BIN:$(GPU_DIR)/%=$(GPU)/%) | sed -n 's/^.* => \(\/[^ ]*\) .*/\1/p' | sort -u | \
	    grep -v '/\(libc\|libm\|libdl\|librt\|libpthread\|libcuda\|libcublas\|libcublasLt\)\.so' | \
	    xargs cp -L -t $(GPU)/lib
	@cp tests/cuda/check_cuda.sh tests/cuda/peer.py $(GPU)
	@n=$$(du -sk $(GPU) | cut -f1); echo "$(GPU): $$n KiB"; [ $$n -lt 61440 ]

# the shim: objects of the .cu files and all that a test links
CXX     ?= g++
SHIM_CXXFLAGS = -std=c++17 -Wall -Wextra -Wno-unknown-pragmas $(WERROR) -g -O1 \
    -fPIC $(SAN) $(if $(SAN),--param asan-use-after-return=0) -I. -Iinclude -Ilibcore
SHIM_OBJ = $(CU_SRC:%.cu=$(B)/obj/shim/%.o) $(CU_C:%.c=$(B)/obj/%.o) \
    $(patsubst %.cc,$(B)/obj/shim/%.o,$(wildcard tests/cuda/shim*.cc))

# threads of the shim: no memory of a kernel is touched there
$(B)/obj/shim/tests/cuda/shim_block.o: SHIM_CXXFLAGS += -O2 \
    $(if $(findstring address,$(SAN)),-fno-sanitize=all -DSHIM_ASAN)

$(B)/obj/shim/%.o: %.cu
	@mkdir -p $(@D)
	$(say) SHIM $<
	$(Q)$(CXX) -x c++ -include tests/cuda/cuda_shim.h $(SHIM_CXXFLAGS) -MMD -MP -c -o $@ $<

$(B)/obj/shim/%.o: %.cc
	@mkdir -p $(@D)
	$(say) CXX $<
	$(Q)$(CXX) $(SHIM_CXXFLAGS) -MMD -MP -c -o $@ $<

$(B)/libcuk-shim.a: $(SHIM_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

# a plugin whose GPU is the shim, for the tools: tests/cli/cuda.bats
$(B)/shim/libcag-cuda.so: $(SHIM_OBJ) $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CXX) -g $(SAN) $(LDFLAGS) -shared -o $@ $^ $(CORE_LIBS) \
	    -Wl,--exclude-libs=ALL

$(B)/tests/cuda/%: $(B)/obj/shim/tests/cuda/%.o $(B)/libcuk-shim.a $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CXX) -g $(SAN) $(LDFLAGS) -o $@ $^ $(CORE_LIBS)

# in C with cmocka
$(B)/tests/cuda/%: $(B)/obj/tests/cuda/%.o $(B)/libcuk-shim.a $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CXX) -g $(SAN) $(LDFLAGS) -o $@ $^ -lcmocka $(CORE_LIBS)

-include $(SHIM_OBJ:.o=.d) $(CU_OBJ:.o=.d) \
    $(patsubst build/san/tests/%,$(B)/obj/shim/tests/%.d,$(CUDA_TEST)) \
    $(patsubst build/san/tests/%,$(B)/obj/tests/%.d,$(CUDA_TEST))

# --- set-up ---------------------------------------------------------------

deps: ## install the Debian packages that are missing
	@tests/tools/deps.sh build test

model: deps ## fetch the demo model (93 MB)
	@PYTHON=$(PYTHON) tests/tools/fetch_model.sh $(DEMO_MODEL)

# --- tests ----------------------------------------------------------------

# deps come before any tool is used; the rest is a make of its own, so that
# nothing was looked up before
check: deps model ## all tests; ends with "N passed, N failed, N skipped"
	@$(MAKE) --no-print-directory $(JOBS) all tests replays
	@$(MAKE) --no-print-directory check-run

# who asked for no number of jobs gets one for each processor
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
REPLAYS = $(if $(filter release,$(MODE)),$(REPLAY) $(LINT) tests/cuda/nvcc.sh) \
          $(if $(filter release san,$(MODE)),$(CUDA_TEST))
check-run: all tests replays
	@CAG_BIN=$(CURDIR)/$(B) CAG_MODE=$(MODE) \
	    CAG_DEMO_MODEL=$(CURDIR)/$(DEMO_MODEL) \
	    ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=1 \
	    UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
	    perl tests/tools/check.pl 2 $(UNIT_BIN) $(BATS) $(REPLAYS)

check-long: deps model ## check with the long loops, distcheck, a minute per fuzz target
	@CAG_TEST_LONG=1 CAG_TEST_TIMEOUT=7200 $(MAKE) --no-print-directory check-run
	@if [ -e .git ]; then $(MAKE) --no-print-directory distcheck; fi
	@for f in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do \
	    $(MAKE) --no-print-directory fuzz FUZZ=$$f TIME=60 || exit 1; done

check-slurm: deps model ## examples/slurm on a Slurm of one node, started for it; needs root
	@tests/tools/deps.sh slurm
	@$(MAKE) --no-print-directory all
	@CAG_BIN=$(CURDIR)/$(B) CAG_DEMO_MODEL=$(CURDIR)/$(DEMO_MODEL) \
	    perl tests/tools/check.pl 1 tests/tools/check_slurm.sh

check-serve: deps model ## clients of OpenAI's protocol against cag-serve; fetches them with pip
	@tests/tools/deps.sh serve
	@$(MAKE) --no-print-directory all
	@CAG_BIN=$(CURDIR)/$(B) CAG_DEMO_MODEL=$(CURDIR)/$(DEMO_MODEL) \
	    perl tests/tools/check.pl 1 tests/tools/check_serve.sh

sanitize: ## all tests under ASan and UBSan
	@$(MAKE) MODE=san check

check-cuda: ## prove and measure a GPU here; wants make gpu-tree before
	@CAG_BIN=$(CURDIR)/$(B) tests/cuda/check_cuda.sh

lint: all ## layers, symbols, banned calls, headers, man pages
	@CAG_BIN=$(CURDIR)/$(B) perl tests/tools/check.pl 2 $(LINT)

# the corpora of the fuzz targets, replayed under ASan and UBSan
replays:
ifeq ($(MODE),release)
	$(Q)$(MAKE) --no-print-directory MODE=san $(REPLAY) $(CUDA_TEST)
else ifeq ($(MODE),san)
replays: $(CUDA_TEST)
endif

replay: replays ## run every fuzz target over its corpus, under ASan and UBSan
	@perl tests/tools/check.pl 2 $(REPLAY)

$(B)/replay/%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/obj/tests/fuzz/replay.o $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	    $(filter %libserve.a,$^) $(filter %libcag.a,$^) $(CORE_LIBS)

$(B)/replay/serve $(B)/serve: $(B)/libserve.a

$(B)/obj/tests/fuzz/%.o: WARN += -Wno-missing-prototypes

# make fuzz FUZZ=gguf [N=runs] [TIME=seconds] [SEED=n]; finds go to build/fuzz
SEED ?= 1
fuzz: ## FUZZ=name [N=runs] [TIME=seconds] [SEED=n]: libFuzzer with ASan, UBSan
ifneq ($(MODE),fuzz)
	@tests/tools/deps.sh fuzz
	@test -n "$(FUZZ)" || { echo "make fuzz: FUZZ=name is missing; one of:" \
	    $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%) >&2; exit 64; }
	@$(MAKE) --no-print-directory MODE=fuzz fuzz
else
fuzz: $(B)/$(FUZZ)
	@mkdir -p $(B)/corpus/$(FUZZ) $(B)/finds
	$(B)/$(FUZZ) -seed=$(SEED) $(if $(TIME),-max_total_time=$(TIME),-runs=$(or $(N),200000)) \
	    -artifact_prefix=$(B)/finds/$(FUZZ)- -print_final_stats=1 -close_fd_mask=1 \
	    $(B)/corpus/$(FUZZ) $(wildcard tests/fuzz/corpus/$(FUZZ))

$(B)/$(FUZZ): $(B)/obj/tests/fuzz/fuzz_$(FUZZ).o $(B)/libcag.a
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) -fsanitize=fuzzer $(LDFLAGS) -o $@ $(filter %.o,$^) \
	    $(filter %libserve.a,$^) $(filter %libcag.a,$^) $(CORE_LIBS)
endif

# --- for people -----------------------------------------------------------

demo: deps model ## build a cache from a text, ask it; MODEL=PATH for another model
	@$(MAKE) --no-print-directory $(JOBS) all
	@PATH="$(CURDIR)/build:$$PATH" sh examples/quickstart.sh \
	    $(or $(MODEL),$(DEMO_MODEL))

format: ## clang-format all sources
	clang-format -i $(wildcard include/*.h include/cag/*.h include/cag/*/*.h libcore/*/*.[ch] libcore/*/*/*.[ch] \
	    kernels/*.[ch] kernels/*/*.[ch] cmd/*.[ch] cmd/*/*.[ch] tests/*/*.[ch])

compdb: ## compile_commands.json for editors
	@$(MAKE) -Bn V=1 all tests | perl tests/tools/compdb.pl > compile_commands.json

info: ## what is built, with what, for which machine
	@echo "cag $(VERSION), git $(GIT_ID), mode $(MODE)"
	@echo "CC $(CC): $$($(CC) --version 2>/dev/null | head -n 1)"
	@echo "CFLAGS $(CAG_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(SAN)"
	@echo "libraries $(CORE_LIBS)"
	@echo "tools $(TOOLS)"
	@sed -n 's/^model name[^:]*: /CPU /p' /proc/cpuinfo | head -n 1
	@echo "CPUs $$(nproc), $$(uname -srm)"

# --- install --------------------------------------------------------------

# completions are named exactly as the commands: the shells look for that
COMPL = $(TOOLS:%=$(B)/completion/%) $(TOOLS:%=$(B)/completion/_%) \
        $(TOOLS:%=$(B)/completion/%.fish)

$(B)/completion/_%: $(B)/%
	@mkdir -p $(@D)
	$(Q)$< --completion zsh > $@

$(B)/completion/%.fish: $(B)/%
	@mkdir -p $(@D)
	$(Q)$< --completion fish > $@

$(B)/completion/%: $(B)/%
	@mkdir -p $(@D)
	$(Q)$< --completion bash > $@

# paths below PREFIX are written in its terms, so that the tree can be moved
$(B)/cag.pc: libcore/cag.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' \
	    -e 's|@INCDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(INCDIR))|' \
	    -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' $< > $@

D = $(DESTDIR)
install: all $(COMPL) $(B)/cag.pc ## DESTDIR= PREFIX=/usr/local: all that a user needs
	install -d $(D)$(BINDIR) $(D)$(LIBDIR) $(D)$(PCDIR) $(D)$(INCDIR)/cag \
	    $(D)$(BASHDIR) $(D)$(ZSHDIR) $(D)$(FISHDIR) $(D)$(DOCDIR)
	install -m 755 $(BIN) $(D)$(BINDIR)
	install -m 644 $(B)/libcag.a $(D)$(LIBDIR)
	$(if $(SHARED),install -m 644 $(SHARED) $(D)$(LIBDIR)/libcag.so.$(VERSION))
	$(if $(SHARED),ln -sf libcag.so.$(VERSION) $(D)$(LIBDIR)/$(SONAME))
	$(if $(SHARED),ln -sf $(SONAME) $(D)$(LIBDIR)/libcag.so)
	if [ -f $(B)/libcag-cuda.so ]; then \
	    install -D -m 644 $(B)/libcag-cuda.so $(D)$(LIBDIR)/cag/libcag-cuda.so; fi
	install -m 644 $(B)/cag.pc $(D)$(PCDIR)
	install -m 644 include/cag.h $(D)$(INCDIR)
	install -m 644 $(wildcard include/cag/*.h) $(D)$(INCDIR)/cag
	install -m 644 $(TOOLS:%=$(B)/completion/%) $(D)$(BASHDIR)
	install -m 644 $(TOOLS:%=$(B)/completion/_%) $(D)$(ZSHDIR)
	install -m 644 $(TOOLS:%=$(B)/completion/%.fish) $(D)$(FISHDIR)
	for m in $(MAN); do \
	    install -D -m 644 $$m $(D)$(MANDIR)/man$${m##*.}/$${m##*/} || exit 1; done
	install -m 644 LICENSE README.md CHANGELOG.md $(D)$(DOCDIR)
	find examples -type f ! -name '*.kvc*' | while read -r f; do \
	    install -D -m $$(test -x $$f && echo 755 || echo 644) $$f \
	        $(D)$(DOCDIR)/$$f || exit 1; done
	$(if $(D),,if [ "$$(id -u)" = 0 ]; then ldconfig; fi)

uninstall: ## remove what install put there
	rm -f $(TOOLS:%=$(D)$(BINDIR)/%) $(D)$(LIBDIR)/libcag.a $(D)$(PCDIR)/cag.pc
	rm -f $(D)$(LIBDIR)/libcag.so $(D)$(LIBDIR)/$(SONAME) $(D)$(LIBDIR)/libcag.so.$(VERSION) \
	    $(D)$(LIBDIR)/cag/libcag-cuda.so
	rm -f $(TOOLS:%=$(D)$(BASHDIR)/%) $(TOOLS:%=$(D)$(ZSHDIR)/_%) $(TOOLS:%=$(D)$(FISHDIR)/%.fish)
	rm -f $(D)$(INCDIR)/cag.h
	rm -rf $(D)$(INCDIR)/cag $(D)$(DOCDIR)
	for m in $(MAN); do rm -f $(D)$(MANDIR)/man$${m##*.}/$${m##*/}; done

TARBALL = build/cag-$(VERSION).tar.gz
dist: ## build/cag-VERSION.tar.gz from the last commit
	@[ -e .git ] || { echo "make dist: this is no git checkout" >&2; exit 69; }
	@mkdir -p build
	git archive --prefix=cag-$(VERSION)/ -o $(TARBALL) HEAD
	@echo $(TARBALL)

distcheck: dist ## unpack the tarball, build, install, try and remove it
	tests/tools/distcheck.sh $(TARBALL)

DEB_LIB = /usr/lib/$(shell $(CC) -print-multiarch)
DEB = build/cag_$(VERSION)-1_$(shell dpkg --print-architecture 2>/dev/null).deb
deb: ## a Debian package in build/
	@tests/tools/deps.sh build deb
	@rm -rf $(B)/deb
	@$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/$(B)/deb PREFIX=/usr \
	    LIBDIR=$(DEB_LIB) ZSHDIR=/usr/share/zsh/vendor-completions >/dev/null
	@tests/tools/deb.sh $(VERSION) $(DEB_LIB) $(CURDIR)/$(B)/deb $(CURDIR)/$(DEB)
	@echo $(DEB)

FORCE:

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

clean: ## remove build/
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(CMD_ALL:%.c=$(B)/obj/%.d) \
    $(UNIT_SRC:%.c=$(B)/obj/%.d) $(FUZZ_SRC:%.c=$(B)/obj/%.d) \
    $(wildcard $(B)/obj/tests/cuda/*.d)

.PHONY: check-cuda check-slurm check-serve gpu-tree all links cuda print-nvcc tests deps model check check-run \
    check-long sanitize lint replays replay fuzz demo format compdb info install \
    uninstall dist distcheck deb help clean FORCE
