# Read by llama.cpp's CMake project, because `.cargo/config.toml` names it as CMAKE_PROJECT_INCLUDE.
# The crate `llama-cpp-sys-2` asks for llama.cpp's library `common` by default, and `llama-cpp-2` cannot be told to
# leave that out. Nothing of it is used here (see src/local/llama/gbnf.rs), and it takes as long to compile as the rest.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "not used" FORCE)
