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
PYTHON  ?= python3
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
say     = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n')

B       := build/$(MODE)
VERSION := $(shell sed -n 's/^.define CAG_VERSION "\(.*\)"/\1/p' include/cag.h)
GIT_ID  := $(shell git describe --always --dirty 2>/dev/null || echo unknown)

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes \
       -Wmissing-prototypes -Wwrite-strings -Wcast-qual
CFLAGS ?= -O2 -g
CAG_CFLAGS = -std=c11 -D_GNU_SOURCE -ffp-contract=off -fvisibility=hidden \
             -fPIC -pthread $(WARN) $(WERROR) -Iinclude -Ilibcore -I.
ifeq ($(MODE),san)
SAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
      -fno-omit-frame-pointer -O1
else ifeq ($(MODE),tsan)
SAN = -fsanitize=thread -O1
endif
CORE_LIBS = -lzstd -lcrypto -lxxhash -lyaml -lpcre2-8 -lutf8proc -ljansson \
            -lm -pthread

LIB_SRC  := $(wildcard libcore/*/*.c) $(filter-out %_cuda.c,$(wildcard kernels/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o)
CMD_ALL  := $(wildcard cmd/*.c)
TOOLS    := $(patsubst cmd/%.c,%,$(wildcard cmd/cag-*.c))
CMD_OBJ  := $(patsubst %.c,$(B)/obj/%.o,$(filter-out cmd/cag-%.c,$(CMD_ALL)))
UNIT_SRC := $(wildcard tests/unit/test_*.c tests/kernels/test_*.c \
              tests/model/test_*.c tests/fault/test_*.c)
UNIT_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(UNIT_SRC))
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
BIN      := $(TOOLS:%=$(B)/%)

DEMO_MODEL  = models/SmolLM2-135M-Instruct.Q4_1.gguf

.DELETE_ON_ERROR:
.SECONDARY:

all: $(BIN) $(B)/libcag.a links ## build the tools and libcag.a

# build/cag-build and friends are the release tools, whatever else is built
links: $(BIN)
ifeq ($(MODE),release)
	$(Q)for t in $(TOOLS); do ln -sf release/$$t build/$$t; done
endif

$(B)/obj/%_avx2.o:   ISA = -mavx2 -mfma -mf16c
$(B)/obj/%_avx512.o: ISA = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(B)/obj/kernels/%.o: OPT = -O3

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CAG_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(OPT) $(SAN) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<

# the git id is only in one object, rebuilt when it changes
$(B)/obj/cmd/opt_help.o: DEFS = -DCAG_GIT_ID='"$(GIT_ID)"'

$(B)/libcag.a: $(LIB_OBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/cag-%: $(B)/obj/cmd/cag-%.o $(CMD_OBJ) $(B)/libcag.a
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $^ $(CORE_LIBS) $(LIBS_$(@F))

# the tests of cmd/ see its objects, but no program's main
$(B)/tests/unit/test_opt $(B)/tests/unit/test_ui: $(CMD_OBJ)

$(B)/tests/%: $(B)/obj/tests/%.o $(B)/libcag.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SAN) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	    $(filter %.a,$^) -lcmocka $(CORE_LIBS)

tests: $(UNIT_BIN) ## build the test programs

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

clean: ## remove build/
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(CMD_ALL:%.c=$(B)/obj/%.d) $(UNIT_SRC:%.c=$(B)/obj/%.d)

.PHONY: all links tests help clean
