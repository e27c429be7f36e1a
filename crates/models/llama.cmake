# Read by llama.cpp's CMake project, because `.cargo/config.toml` names it as CMAKE_PROJECT_INCLUDE: once for the
# project `llama.cpp` itself, and once for `ggml`, the part that computes.

# The crate `llama-cpp-sys-2` asks for llama.cpp's library `common` by default, and `llama-cpp-2` cannot be told to
# leave that out. Nothing of it is used here (see src/local/llama/gbnf.rs), and it takes as long to compile as the rest.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "not used" FORCE)

# Everything that takes time while a model runs is in ggml. The rest describes models, and is compiled in half the
# time without the optimizations that nobody would notice.
if(PROJECT_NAME STREQUAL "ggml")
  set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
endif()
