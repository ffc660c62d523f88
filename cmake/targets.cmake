# One line per target: coxswain_library, coxswain_binary, coxswain_test, coxswain_bench.
#   NAME  target without prefix; SRCS .cc files; HDRS .h files; DEPS targets (PUBLIC for libraries)

set(COXSWAIN_WARNINGS -Wall -Wextra -Wpedantic -Werror -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC bugs 105329 and 105651: false alarms on concatenations of string literals.
  list(APPEND COXSWAIN_WARNINGS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
endif()

# Many small files behind the same large headers. With COXSWAIN_LUMPS eight of them are compiled as one. The kernels are
# not among them: their bits and their speed never hang on which functions share a file.
set(COXSWAIN_LUMPED access agent api buffer_table checkpoint cli columnar config controller_core data driver engine export
  failure foreign_keys gang hub incidents jinja job_import kernels_c_api model plan_checks planner proto_grpc relay safetensors
  scheduler sim state status_page store supervisor tokenizer torch written_folder)
list(TRANSFORM COXSWAIN_LUMPED PREPEND coxswain_)

# What a person waits for, never a step: -O1 compiles in four fifths of the time of -O3.
set(COXSWAIN_UNHURRIED api checkpoint cli config controller_core export failure foreign_keys incidents job_import plan_checks
  relay state status_page store supervisor)
list(TRANSFORM COXSWAIN_UNHURRIED PREPEND coxswain_)

function(_coxswain_common target)
  # A lump lies outside the folder, whose .clang-tidy would not count.
  set(own_tidy OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.clang-tidy)
    set(own_tidy ON)
  endif()
  if(COXSWAIN_LUMPS AND target IN_LIST COXSWAIN_LUMPED AND NOT own_tidy)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if(target IN_LIST COXSWAIN_UNHURRIED AND CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Memory for a tenth of the time: GCC collects garbage from 1.5 GB on, in KiB, where it would from 128 MB.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1500000>")
  endif()
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${COXSWAIN_WARNINGS}>)
  # One kind of code for libraries and programs, so that they share precompiled headers.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CXX>:-pthread>)
  set_property(GLOBAL APPEND PROPERTY COXSWAIN_TARGETS ${target})
endfunction()

# A program that measures or checks others: its own speed is the compiler's to save. LEVEL 0 compiles in two thirds of
# the time of 1, which is for those that compute what they compare with.
function(_coxswain_quick_build target level)
  _coxswain_common(${target})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O${level}>)
  set_target_properties(${target} PROPERTIES COXSWAIN_LEVEL ${level})
  # Headers are most of the time of a test: sixteen of them take that of four.
  if(COXSWAIN_LUMPS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

# coxswain_library(NAME x SRCS ... HDRS ... DEPS ...) makes coxswain_x and the alias coxswain::x.
function(coxswain_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;HDRS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(coxswain_${ARG_NAME} STATIC ${ARG_SRCS} ${ARG_HDRS})
    _coxswain_common(coxswain_${ARG_NAME})
    target_link_libraries(coxswain_${ARG_NAME} PUBLIC ${ARG_DEPS})
  else()
    add_library(coxswain_${ARG_NAME} INTERFACE)
    target_include_directories(coxswain_${ARG_NAME} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(coxswain_${ARG_NAME} INTERFACE ${ARG_DEPS})
  endif()
  add_library(coxswain::${ARG_NAME} ALIAS coxswain_${ARG_NAME})
endfunction()

# coxswain_binary(NAME cox SRCS ... DEPS ...) makes bin/cox.
function(coxswain_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  _coxswain_common(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS})
endfunction()

# coxswain_test(NAME data_packing_test SRCS packing_test.cc DEPS ...): GoogleTest main included.
# Each TEST becomes one ctest test, with its folder below tests/ as label. TIMEOUT in seconds, default 600. COMPUTES: see
# _coxswain_quick_build.
function(coxswain_test)
  cmake_parse_arguments(ARG "COMPUTES" "NAME;TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set(level 0)
  if(ARG_COMPUTES)
    set(level 1)
  endif()
  _coxswain_quick_build(${ARG_NAME} ${level})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gtest_main)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  include(GoogleTest)
  # One thread a test, and none that spins while it waits: tests run side by side, and OpenMP's threads that share a core
  # with another test's take 60 times as long. What is about several threads asks for them.
  gtest_discover_tests(${ARG_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${folder}
    ENVIRONMENT "OMP_NUM_THREADS=1;OMP_WAIT_POLICY=passive")
endfunction()

# coxswain_bench(NAME packing_bench SRCS ... DEPS ...) makes bench/packing_bench (Google Benchmark linked).
function(coxswain_bench)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  _coxswain_common(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()
