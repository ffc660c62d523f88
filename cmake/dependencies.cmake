# Third-party libraries as imported targets. Every name is a Debian 12 package (deploy/install-deps.sh).
find_package(Threads REQUIRED)
find_package(absl REQUIRED CONFIG)
find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED CONFIG)
find_package(yaml-cpp REQUIRED CONFIG)
find_package(prometheus-cpp REQUIRED CONFIG)
find_package(fmt REQUIRED CONFIG)
find_package(spdlog REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(simdjson REQUIRED CONFIG)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest REQUIRED CONFIG)
find_package(benchmark REQUIRED CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(CTEMPLATE REQUIRED IMPORTED_TARGET libctemplate)

# Debian's Torch and Gloo CMake files name files of packages they do not depend on; the libraries
# themselves are enough.
find_library(COXSWAIN_TORCH_CPU torch_cpu REQUIRED)
find_library(COXSWAIN_C10 c10 REQUIRED)
find_library(COXSWAIN_GLOO gloo REQUIRED)

# ATen for tests: the two macros make the slow umbrella headers compile errors (7.8 s per file instead of 1.8 s).
add_library(coxswain_aten INTERFACE)
add_library(coxswain::aten ALIAS coxswain_aten)
target_link_libraries(coxswain_aten INTERFACE ${COXSWAIN_TORCH_CPU} ${COXSWAIN_C10})
target_compile_definitions(coxswain_aten INTERFACE
  AT_PER_OPERATOR_HEADERS TORCH_ASSERT_ONLY_METHOD_OPERATORS)

# libtorch with autograd, for tests/reference and kernels/torch. Clang 14 compiles 1.13 in C++20 where c10::IValue is
# complete before all else.
add_library(coxswain_torch_autograd INTERFACE)
add_library(coxswain::torch_autograd ALIAS coxswain_torch_autograd)
target_link_libraries(coxswain_torch_autograd INTERFACE ${COXSWAIN_TORCH_CPU} ${COXSWAIN_C10})
target_compile_options(coxswain_torch_autograd INTERFACE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-include ATen/core/ivalue.h>")

add_library(coxswain_gloo INTERFACE)
add_library(coxswain::gloo ALIAS coxswain_gloo)
target_link_libraries(coxswain_gloo INTERFACE ${COXSWAIN_GLOO})
