#!/bin/sh
# What a compiler can say about the CUDA part without a GPU: it builds for
# every architecture with warnings as errors, no kernel takes more registers
# or spills more than tests/cuda/budget.txt allows, and attention really uses
# tensor cores.
exec perl -I. -e '
require "./tests/lint/lint.pl";
my $nvcc = `make -s --no-print-directory print-nvcc` =~ s/\s+$//r;
my @names = ("libcag-cuda.so builds for every architecture",
             "registers and spills are within tests/cuda/budget.txt",
             "attention uses tensor cores", "the plugin shows only cag_ symbols",
             "the plugin is below 60 MiB and needs cuBLAS and system libraries only");
push @names, "gpu-tree brings its libraries, and says that there is no GPU" if $ENV{CAG_TEST_LONG};
if ($nvcc eq "") {
    skip($_, "there is no nvcc") for @names;
    finish();
}
my $log = `make --no-print-directory -j2 cuda 2>&1`;
verdict($names[0], $? ? split(/\n/, $log) : ());
exit 1 if $?;

# name in the budget -> [registers, bytes of spills], the most of all targets
my (%used, $kernel);
for my $file (map { "build/release/obj/cuda/" . s/cu$/ptxas/r } glob "kernels/cuda/*_cuda.cu") {
    for (split /\n/, slurp($file)) {
        $kernel = $1 if /Compiling entry function .(\S+?). for/;
        $kernel = "$1<$2>" if ($kernel // "") =~ /(?:\d+)([a-z]\w*?_kernel)ILi(\d+)E/;
        $kernel = $1 if ($kernel // "") =~ /^_Z\w*?\d+([a-z]\w*?_kernel)/;
        next unless $kernel;
        my $u = $used{$kernel} ||= [0, 0];
        $u->[1] = $1 if /(\d+) bytes spill stores/ && $1 > $u->[1];
        $u->[0] = $1 if /Used (\d+) registers/ && $1 > $u->[0];
    }
}
my (%budget, @wrong);
for (split /\n/, slurp("tests/cuda/budget.txt")) {
    $budget{$1} = [$2, $3] if /^(\w\S*)\s+(\d+)\s+(\d+)\s*$/;
}
for my $k (sort keys %used) {
    my ($b, $u) = ($budget{$k}, $used{$k});
    push(@wrong, "$k is not in the budget: $u->[0] registers, $u->[1] spilled"), next if !$b;
    push @wrong, "$k: $u->[0] registers, $b->[0] allowed" if $u->[0] > $b->[0];
    push @wrong, "$k: $u->[1] bytes spilled, $b->[1] allowed" if $u->[1] > $b->[1];
}
push @wrong, "$_ is in the budget only" for grep { !$used{$_} } sort keys %budget;
push @wrong, "nothing was measured" unless %used;
verdict($names[1], @wrong);

# The instruction that the assembler turns into HMMA, in both ways the source
# is compiled (before sm_80, and since); and HMMA itself where a disassembler is.
my $dump = ($nvcc =~ s/nvcc$/cuobjdump/r);
$dump = -x $dump ? $dump : `command -v cuobjdump` =~ s/\s+$//r;
my ($arch, $fn, %mma) = ("");
for my $sm (75, 80) {
    $fn = "";
    for (`$nvcc -std=c++17 -O3 -I. -arch=compute_$sm -ptx -o /dev/stdout kernels/cuda/attention_cuda.cu`) {
        $fn = $1 if /^\s*(?:\.\w+\s+)*\.(?:entry|func)\s+(\w+)/;
        $mma{"compute_$sm $fn"} += /\bmma\.sync\.aligned\.m16n8k\d+\.row\.col\.f32\.f16\.f16\.f32/ ? 1 : 0
            if $fn =~ /attention_kernel/;
    }
}
my $n_ptx = keys %mma;
if ($dump ne "") {
    for (`$dump -sass build/release/obj/cuda/kernels/cuda/attention_cuda.o`) {
        $arch = $1 if /arch = (sm_\d+)/;
        $fn = $1 if /Function : (\S+)/;
        $mma{"$arch $fn"} += /\bHMMA\./ ? 1 : 0 if $arch && $fn =~ /attention_kernel/;
    }
}
# a kernel of each head size for both; codes and f16, few rows and many, are
# paths of it, which have 2 D of them together; above 128 ten groups of 16 keys,
# each with D / 8 for its values and, as scores are a loop there, 4 for these
my @few = grep { /^compute_\d+ .*ILi(\d+)E/ &&
                 $mma{$_} < ($1 > 128 ? 10 * ($1 / 8 + 4) : 2 * $1) } sort keys %mma;
verdict($names[2], (map { "no mma in $_" } grep { !$mma{$_} } sort keys %mma),
        (map { "only $mma{$_} mma in $_" } @few),
        $n_ptx >= 6 ? () : "attention was found $n_ptx times",
        $dump eq "" || keys %mma > $n_ptx ? () : "cuobjdump shows no attention_kernel");

# one file to carry to the machine with the GPU (make check-cuda); cudart is in it
my $plugin = "build/release/libcag-cuda.so";
system "strip -o $plugin.stripped $plugin";
my $size = -s "$plugin.stripped";
unlink "$plugin.stripped";
my @needs = map { /\[(.*)\]/ ? $1 : () } grep { /NEEDED/ } `readelf -d $plugin`;
verdict($names[4], $size > 1000 && $size < 60 << 20 ? () : "stripped it has $size bytes",
        map { "needs $_" } grep { !/^(libcublas|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux|lib(zstd|crypto|xxhash|yaml|pcre2-8|utf8proc|jansson)\.so)/ } @needs);
my @seen = grep { !/^cag_/ } map { (split)[-1] }
           grep { / [A-TV-Z] / } `nm -D --defined-only build/release/libcag-cuda.so`;
verdict($names[3], map { "$_ is visible" } @seen);

# what is carried to a machine with a GPU: make itself refuses 60 MiB
if ($names[5]) {
    $log = `make --no-print-directory -j2 gpu-tree 2>&1`;
    my @wrong = $? ? split(/\n/, $log) : ();
    my %lib = map { s{.*/}{}r => 1 } glob "build/release/gpu/lib/*";
    delete @lib{qw(libcmocka.so.0 libjansson.so.4 libgcc_s.so.1)};
    push @wrong, "$_ is not linked in" for sort keys %lib;
    # Ubuntu 22.04, the usual image with CUDA, has glibc 2.35
    for my $f (grep { -f && -x } glob "build/release/gpu/*") {
        my ($new) = sort { $b <=> $a } map { /GLIBC_2\.(\d+)/ ? $1 : () } `objdump -T $f 2>/dev/null`;
        push @wrong, "$f needs GLIBC_2.$new" if ($new // 0) > 35;
    }
    my $said = `cd / && env -i PATH=/usr/bin:/bin OUT=\$(mktemp -d) $ENV{PWD}/build/release/gpu/check_cuda.sh 2>&1`;
    push @wrong, "without a GPU: status " . ($? >> 8) . ", $said"
        if !-e "/dev/nvidiactl" && ($? >> 8 != 69 || $said !~ /\Acheck_cuda: .*\n\z/);
    verdict($names[5], @wrong);
}
finish();
'
