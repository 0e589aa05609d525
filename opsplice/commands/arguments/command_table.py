"""The commands and their arguments, a line for each. `reading` says how the lines are read.

    command [flags]: what it does        [flags]: it takes the flags of IREE's compiler
      name                               an argument; [name]: may be left out; name...: one or more; name=SHOWN in help
      -o --option=VALUE                  an option; =VALUE...: several times; =VALUE,...: a list; =a|b: one of these,
                                         the first by default; =VALUE [x]: x by default; !: it has to be given
      --switch
      = more about the command, for its own --help

An option without words is one of `SHARED`. `@packages` stands for those of `PACKAGES`, and `@model` for a model with
specs, which with `!` have to be given. Every command has `--json`.
"""

GROUPS = {
    "": {
        "look at a model": ("survey", "match", "explain"),
        "build and run": ("compile", "run"),
        "trust and measure": ("verify", "bench", "tune"),
        "write specs": ("capture", "lint", "format", "import", "export"),
        "kernels and libraries": ("kernel", "library"),
        "this machine": ("doctor",),
    },
    "kernel": {
        "kernels that programs load at run time": ("plugin", "fat", "provider"),
        "make and publish packages": ("build", "push", "sign", "keygen"),
        "use packages": ("pull", "lock", "mirror", "trust"),
        "look at packages": ("list", "show", "verify", "audit"),
        "the cache": ("gc",),
    },
}

SHORT = {"format": ("fmt",)}

TEXTS = {
    "TRIALS": "program, random, sizes, nan, infinity, -infinity, zeros, denormals, large",
    "CPUS": "cpu (this machine's, the default), x86_64, aarch64, riscv64",
    "TARGETS": "cpu (this machine's), x86_64, aarch64, riscv64, vulkan, metal, cuda:sm_80, rocm:gfx942",
    "NEAR": "A near miss is a place in the model where a part of a pattern holds and another part does not. It is told "
    "with what the pattern wants there and what the model has.",
}

SHARED = """\
  --spec=SPEC...  patterns, kernels and rules: a .splice file, a transform-dialect .mlir file, or an installed
      library by its name, acme_kernels or acme_kernels:attention; several apply in order
  --target=TARGET,...  what the program is to run on: cpu (this machine's), x86_64, aarch64, riscv64, vulkan, cuda,
      rocm or metal, a GPU with its chip if you know it, as cuda:sm_80. The program holds code for each that is
      named, and runs on the first that it finds. Default: what the --iree-... flags say, or this machine's kind of
      CPU
  --dim=NAME=SIZE  the size of a symbolic dim of a model in ONNX, as batch=8; the others stay dynamic
  --function=NAME  the function to run (default: all)
  --input=VALUE...  a value, once for each input in their order, as for `opsplice run` (default: random numbers)
  --inputs=@FILE  all inputs in their order: @inputs.npz
  --require-match  fail if a rule matches nothing
  --build-timeout=SECONDS  the longest that the compiler of a kernel may take (default: 600)
  --no-code  build and run nothing of the specs: take prebuilt artifacts only (docs/security.md)
  --cache  keep the program, and take it from there if nothing changed (docs/cache.md)
  --no-isolate  work in this process: a crash of IREE or of a kernel then ends it
  --license=SPDX []  such as Apache-2.0
  --mirror=FOLDER...  a folder to look for packages in before their registry (default: OPSPLICE_MIRROR)
  --trust=FILE  the trust file, which says what keys may publish (default: OPSPLICE_TRUST or
      ~/.config/opsplice/trust.toml)
  --allow-unsigned  take packages that no trusted key signed; a lock remembers it
  --lock=FILE  use the packages that the file pins by digest, and add those that it lacks
  --locked  use only what the lock has (default: opsplice.lock), offline where the cache or a mirror has it
  --allow-code  build and run code of packages, too, not only prebuilt artifacts
  --json  print one JSON object to stdout, errors too
"""

PACKAGES_TITLE = "packages of registries (docs/registry.md)"
PACKAGES = ("--lock", "--locked", "--allow-unsigned", "--allow-code", "--trust", "--mirror")

MODEL = """
  model  MLIR as text or bytecode, an .onnx or a .pt2 file
  --spec{must}
  --target
  --dim
  @packages"""

COMMANDS = """\
compile [flags]: compile a model with specs to a program for IREE's runtime, a .vmfb file
  @model
  --require-match
  -o --output=FILE!  the .vmfb to write; - for stdout
  --build-timeout
  --no-code
  --cache
  --verify  leave rules alone that give wrong numbers, and say so (see `opsplice verify`)
  --verify-or-fail  fail if a rule gives wrong numbers
  --save-kernels=FOLDER  where to write kernels that are `as provided`, so not in the program (default: the output's
      name with the ending .kernels)
  --verbose  show matches that other rules have the place of, and IREE's own messages
  --no-isolate

run [flags]: run a .vmfb, or compile a model with specs and run it
  model  MLIR as text or bytecode, an .onnx or a .pt2 file; or a .vmfb to run as it is
  --spec
  --target
  --dim
  @packages
  --require-match
  --function=NAME  the function to call; not needed if there is only one
  --input=VALUE...  a value, once for each input in their order: 8xf32=2 (2 in all places), 2x2xi32=1,2,3,4,
      f32=1.5, @x.npy, 4xf32=@raw.bin
  --provider=FOLDER...  a folder of kernels that are not in the program, as `compile` writes it, or a .vmfb of them;
      the first that has a kernel wins
  --command=MODULE=FILE...  the Python file with the functions of a module that the program calls on the host (`as
      command`); FILE alone if the module is called like it
  --device=URI  where to run: local-task (the CPU), local-sync (on one thread), vulkan, cuda, hip or metal; a model is
      compiled for it. The default is what it was compiled for, a CPU first
  --plugin=FILE...  a file with functions that the program imports (`as plugin`): .so or .sos for a CPU, .spv,
      .wgsl, .ptx or .ll for GPUs; the last file with a function wins
  --parameters=SCOPE=FILE...  an archive of the program's weights, .irpa, .gguf or .safetensors; FILE alone if their
      scope is `model` or there is none; by default the .irpa beside the program
  --output=@FILE  where to save the results: @out.npy, or @folder/ for a file each. Of more than 100 numbers the
      first are printed, the range and the mean; --json has all
  --build-timeout
  --no-code
  --cache
  --verbose  show matches that other rules have the place of, and IREE's own messages
  --no-isolate

survey [flags]: show what a model computes, what that costs, and what there are kernels for
  @model
  --no-time  run nothing; shares are then of operations
  --html=FILE  write it as a page that needs no other file
  --verbose  show what takes less than 1 %%, too, and IREE's own messages
  = Computations are named by the patterns that come with opsplice, the largest first; other ops by their names. Times
      are those of IREE's own code for each alone.

verify [flags]: check that the numbers of replacements hold, match by match and for the whole program
  @model!
  --function
  --input
  --inputs
  --tolerance=PART  how far floats may be off, as a part of the largest of their row (default: by type and length of
      sums)
  --trials=KIND,...  the trials to run (default: all): {TRIALS}
  --again  run also what is known from before
  --build-timeout
  --no-code
  --verbose  show every trial, the drift of every match, and IREE's own messages
  --no-isolate
  = Each match is cut out and run as IREE compiles it, with its kernel, and in f64: on the values of the program's own
      run, random ones, NaN, infinities, zeros, denormals and large numbers, in several sizes where dims are open.
      Kernels run in a child process, between pages that nobody may touch, with their workgroups in other orders and on
      several threads. docs/verify.md says what is taken. Exits with 1 if a match fails.

bench [flags]: time each match and the whole program with and without kernels, and other runtimes
  @model
  --function
  --input
  --inputs
  --against=NAME,...  other runtimes on the same inputs: onnxruntime (.onnx files), torch (.pt2 files)
  --seconds=SECONDS [1]  how long to time each match and each function (default: 1)
  --html=FILE  write a page with all results; it needs no other file
  --verify  check the numbers, too, as `opsplice verify` does
  --build-timeout
  --no-code
  --verbose  show IREE's own messages
  --no-isolate
  = Everything runs in turn in one process that stays on one CPU, without threads; times are of that thread. A
      difference within the noise is called none. docs/verify.md says more.

tune [flags]: measure which kernel is the fastest for each computation here, and write the choice as a spec
  @model!
  -o --output=FILE!  the .splice to write; - for stdout
  --seconds=SECONDS [60]  the budget; what was measured is kept, and the next run goes on from there (default: 60)
  --database=FILE  where measurements are kept, a line of JSON each; `cat` joins several (default: tuned.jsonl in the
      cache)
  --dask=ADDRESS  the scheduler of Dask whose workers measure, tcp://HOST:8786 (default: this machine does)
  --again  measure also what is known from before
  --build-timeout
  --no-code
  --verbose  show IREE's own messages
  --no-isolate
  = Every rule that takes a computation is a candidate, whatever its place in the spec, and so is IREE's own code. They
      run in turn on one core; a difference within the noise is none, and a kernel with other numbers than IREE's is no
      choice. The spec that is written imports the one that was tuned; its rules, with sizes, come before that one's.

match [flags]: show what specs would replace; nothing is changed or built
  @model!
  --require-match
  --verbose  show matches that other rules have the place of, and IREE's own messages
  --no-isolate
  = A match is replaced, kept as the compiler's own code, or lost to another rule that has its place. For a rule without
      a match the nearest near miss is shown. {NEAR}

explain [flags]: show why patterns match, and where and why they do not
  @model!
  --pattern=NAME  only this pattern (default: those that rules use)
  --at=PLACE  only at a line, model.mlir:12, at lines, model.mlir:10-25, at an op, linalg.generic#3 is the third of the
      program, or at a node of an ONNX model
  --verbose  show all patterns, matches and near misses, and IREE's own messages
  --no-isolate
  = {NEAR} docs/explain.md says how to read it.

export [flags]: write a .splice spec as a transform-dialect spec, for IREE's own iree-compile
  spec  a .splice file, or an installed library
  -o --output=FILE!  the .mlir to write; - for stdout
  --partial  leave out what a transform-dialect spec cannot say, and list it
  --objects=path|copy|bytes  how the spec has its kernels: by their path in the cache (default), as a copy beside
      it, or as bytes in it (bitcode only)
  --target=TARGET,...  the CPUs that kernels are built for: {CPUS}
  --build-timeout
  @packages
  --no-code

import: write a transform-dialect spec as a .splice file
  spec  a transform-dialect .mlir file
  -o --output=FILE!  the .splice to write; - for stdout
  --partial  leave out what a .splice file cannot say, and list it

capture [flags]: write a pattern, a kernel and a rule from ops of a model, or without --at list the ops
  model  MLIR as text or bytecode, an .onnx or a .pt2 file
  --dim
  --at=PLACE...  what to take: the op of a line, model.mlir:12, or of a name, linalg.generic#3, with what leads up
      to it; or just the ops of lines, model.mlir:10-25, or of a node of an ONNX model. Several times for several
      results
  --to=PLACE...  take all ops from this place down to --at
  --inputs=VALUE,...  take all ops from these values down to --at: places, or names such as %%5 from the list of ops
  --name=NAME  the pattern's name (default: that of the file of -o)
  --phase=preprocessing|input  the phase of IREE's compiler at which the program is read (default: preprocessing)
  --concrete  write sizes as numbers: the pattern holds for these only
  --element-variable  write a type variable for the element type: f32 or f64
  --packs  write ...m for leading dims, such as batches: the pattern holds for any number of them
  -o --output=FILE  the .splice to write, and beside it the kernel's .c unless there is one (default: print it)
  --verbose  show IREE's own messages
  --no-isolate

format: format .splice files in place
  files=file...  a .splice file; - reads stdin and writes stdout
  --check  change nothing; exit 1 if a file would change

lint: warn of what is likely a mistake in .splice files
  files=file...  a .splice file, or an installed library; what it imports is checked too
  --deny=CODE,...  exit with 1 for these warnings; all: for any
  --allow=CODE,...  hide these warnings
  @packages
  = docs/lint.md lists the warnings with their codes.

kernel [flags]: build kernels that programs load at run time, and packages of kernels: publish, pull, sign, audit

kernel plugin: build a plugin: the kernels of a spec that are `as plugin`, for --plugin of `opsplice run`
  [spec]  a .splice file, or an installed library (without one the plugin has no functions)
  -o --output=FILE!  what to write, by its ending: .so for this system, .sos for CPUs of any system, .spv for Vulkan
  --kernel=NAME...  only this kernel; several times for several
  --target=TARGET,...  the CPUs to build for: {CPUS}; several go into one .sos
  --features=NAMES []  what the CPU has, for the kernels' `when`: avx2,fma, or host for what this machine's has
  --build-timeout

kernel fat: join plugins (.sos) of several architectures into one
  files=file...  a .sos of one architecture, or of several
  -o --output=FILE!  the .sos to write

kernel provider [flags]: make a .vmfb of kernels that are `as provided`, so that any host of IREE can provide them
  folders=folder...  a .kernels folder that `opsplice compile` wrote
  -o --output=FILE!  the .vmfb to write
  --plugin=FILE...  a .spv, .wgsl, .ptx or .ll with functions that the kernels import; the last file with a function
      wins

kernel build: build all artifacts of a spec for several targets, as a package in the cache
  spec  a .splice file, or an installed library
  --target=TARGET,...!  what to build for: {TARGETS}
  -o --output=FOLDER  write the package as a plain folder, too, for a wheel
  --name=NAME []  what specs import it by (default: the spec's name)
  --version=VERSION [0]  the package's version (default: 0)
  --license
  --partial  leave out what no compiler here makes, and list it
  --build-timeout

kernel push: publish a spec with its artifacts in a registry
  what  a .splice file, which is built, or a folder that `build -o` wrote
  to=oci://HOST/REPOSITORY:TAG  where to publish it, and as which version
  --target=TARGET,...  what to build for (default: what `kernel build` last built the spec for): {TARGETS}
  --name=NAME []  what specs import it by (default: the repository, acme/kernels as acme_kernels)
  --sign=KEY...  a private key to sign it with
  --license
  --partial  leave out what no compiler here makes, and list it
  --build-timeout

kernel pull: copy a package from its registry into the cache
  reference=oci://HOST/REPOSITORY:TAG  the package, maybe with @sha256:...
  --target=TARGET,...  only what a program for these needs (default: all that it has): {TARGETS}
  @packages

kernel list: list the packages of the cache, a registry's repository or a folder, or what is in a plugin
  [place]  oci://HOST/REPOSITORY, a folder of packages, or a plugin: a .so, .sos, .spv, .wgsl or .ptx (default: the
      cache)

kernel show: show what is in a package; nothing of it is pulled or run
  what  a package of the cache, by name or digest, or oci://HOST/REPOSITORY:TAG

kernel mirror: copy packages with their signatures to a folder, or from anywhere to a registry
  source  oci://HOST/REPOSITORY:TAG, a repository with all its tags, a folder, or a lock file (*.lock)
  to  a folder, for --mirror; or oci://HOST/REPOSITORY:TAG for one package
  --target=TARGET,...  only these targets (default: all): {TARGETS}

kernel gc: take packages, artifacts and programs out of the cache that nobody uses any more
  --older=30d  what was not used for so long, in days (d) or hours (h); without it only bytes that belong to no
      package
  --dry-run  only say what would go

kernel keygen: make a key to sign packages with: KEY, which is secret, and KEY.pub
  key  the file for the private part, such as acme.key; the public one gets .pub
  --passphrase  encrypt the private part: asks for a passphrase, or takes OPSPLICE_KEY_PASSPHRASE

kernel sign: sign a package that is in a registry
  reference=oci://HOST/REPOSITORY:TAG  the package
  --key=KEY...!  the private key; several sign together

kernel verify: show which trusted key signed a package; nothing is pulled
  reference=oci://HOST/REPOSITORY:TAG  the package
  --mirror
  --trust

kernel trust: say which keys may publish which packages, and what is revoked; without arguments show it
  [key=KEY.pub]  a public key, from a source that you trust
  --publishes=NAME...  what it may publish: repositories without their host, * for any text, as 'acme/*'
  --owner=TEXT []  whose key it is, for people
  --revoke=WHAT  never use a key (id or .pub file) or a digest (sha256:...)
  --reason=TEXT []  why it is revoked
  --trust

kernel lock: pin packages by digest in a lock file
  [references=oci://HOST/REPOSITORY:TAG]...  packages to add; others in the lock stay
  -o --output=FILE [opsplice.lock]  the lock file (default: opsplice.lock)
  --upgrade=NAME...  look up the tag of a package of the lock anew; all for all
  --allow-unsigned
  --mirror
  --trust

kernel audit: show which kernels are in a compiled program, where they come from, and whether they are revoked
  program=model.vmfb  a program; nothing of it is run
  --trust

library: make, try and list pattern libraries: Python packages of specs

library list: show the libraries that are installed, and what is in them
  [name]  only this one, with the names of its patterns and kernels

library new: make a package with a library that works: a pattern, a kernel, a test
  name  the library's name, as acme_kernels
  --folder=FOLDER  where to write it (default: a folder of its name)

library check: try a library: its text, its code for all targets, each pattern on an example, and its numbers
  library  the folder of a project or of specs, or the name of an installed library
  --build-timeout
  = It builds and runs the library's code on this machine.

doctor: show what this machine can build and run, and how to get what is missing
"""
