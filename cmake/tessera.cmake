# The build in two functions: a folder is a library, its *_test.cpp are one test program.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(GTest REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)

add_library(tessera_flags INTERFACE)
target_include_directories(tessera_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.hpp.in ${CMAKE_BINARY_DIR}/generated/base/version.hpp)
# Everything goes into one shared library (program.cmake), whose own calls need no detour.
target_compile_options(tessera_flags INTERFACE -fPIC -fno-semantic-interposition)
target_compile_options(tessera_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Wno-missing-field-initializers)
if(TESSERA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It asks whether a type of the file being compiled is local to it; with several files in one it cannot tell.
  target_compile_options(tessera_flags INTERFACE -Wno-subobject-linkage)
endif()
if(TESSERA_WERROR)
  target_compile_options(tessera_flags INTERFACE -Werror)
endif()
target_link_libraries(tessera_flags INTERFACE fmt::fmt absl::status absl::statusor Threads::Threads)

if(TESSERA_TORCH)
  # Debian's Torch CMake package drags in caffe2's own dependencies; three libraries are all we need.
  find_path(TORCH_API_INCLUDE torch/torch.h PATH_SUFFIXES torch/csrc/api/include REQUIRED)
  find_library(TORCH_LIBRARY torch REQUIRED)
  find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
  find_library(C10_LIBRARY c10 REQUIRED)
  find_library(OPENBLAS_LIBRARY openblas REQUIRED)
  add_library(tessera_torch INTERFACE)
  target_link_libraries(tessera_torch INTERFACE tessera_flags ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY}
                        ${C10_LIBRARY} ${OPENBLAS_LIBRARY})

  # One precompiled header for every file that uses torch: 11 s a file become 4 s.
  add_library(tessera_pch STATIC cmake/pch.cpp)
  target_link_libraries(tessera_pch PRIVATE tessera_torch)
  target_compile_options(tessera_pch PRIVATE -fpch-preprocess)
  target_precompile_headers(tessera_pch PRIVATE cmake/pch.hpp)
  add_library(tessera_cold_pch STATIC cmake/pch.cpp)  # the level of optimization is part of it
  target_link_libraries(tessera_cold_pch PRIVATE tessera_torch)
  target_compile_options(tessera_cold_pch PRIVATE -fpch-preprocess -O1)
  target_precompile_headers(tessera_cold_pch PRIVATE cmake/pch.hpp)
endif()

# Tests are compiled without optimization: most of their time went into optimizing GoogleTest's macros (run_test: 53 s
# with -O3, 56 s with -O1, 29 s with -O0). What they test is optimized as ever. They have precompiled headers of their own.
add_library(tessera_test_flags INTERFACE)
target_link_libraries(tessera_test_flags INTERFACE tessera_flags GTest::gmock GTest::gtest)
target_compile_options(tessera_test_flags INTERFACE -fpch-preprocess -O0)
add_library(tessera_test_pch STATIC cmake/pch.cpp)
target_link_libraries(tessera_test_pch PRIVATE tessera_test_flags nlohmann_json::nlohmann_json)
target_precompile_headers(tessera_test_pch PRIVATE cmake/pch_test.hpp)
if(TESSERA_TORCH)
  add_library(tessera_torch_test_pch STATIC cmake/pch.cpp)
  target_link_libraries(tessera_torch_test_pch PRIVATE tessera_torch tessera_test_flags nlohmann_json::nlohmann_json)
  target_precompile_headers(tessera_torch_test_pch PRIVATE cmake/pch.hpp cmake/pch_test.hpp)
endif()

function(tessera_use_torch target pch)
  target_link_libraries(${target} PUBLIC tessera_torch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# tessera_library(name [TORCH] [COLD] [FOLDER dir] [EXCEPT folder] [DEPS other...]): all .cpp below the folder,
# tests apart; a folder inside it that is EXCEPTed is a library of its own. COLD: nothing in it takes a user's time,
# so it is optimized less and compiles faster (docs/decisions/017).
# DEPS are the include rules of docs/concepts.md; tools/check_includes holds the sources to them.
function(tessera_library name)
  cmake_parse_arguments(ARG "TORCH;COLD" "FOLDER;EXCEPT" "DEPS" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER src/${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARG_FOLDER}/*.cpp)
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "/${ARG_FOLDER}/${ARG_EXCEPT}/")
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main|src/method/method)\\.cpp$")  # method.cpp: contract
  add_library(${name} STATIC ${sources})
  set_property(GLOBAL APPEND PROPERTY TESSERA_PARTS ${name})
  target_link_libraries(${name} PUBLIC tessera_flags ${ARG_DEPS})
  if(ARG_COLD)
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(ARG_TORCH)
    set(pch tessera_pch)
    if(ARG_COLD)
      set(pch tessera_cold_pch)
    endif()
    tessera_use_torch(${name} ${pch})
  endif()
  if(name STREQUAL "io")
    target_link_libraries(io PUBLIC ZLIB::ZLIB LibLZMA::LibLZMA ${ZSTD_LIBRARY} SQLite::SQLite3 OpenSSL::Crypto
                          CURL::libcurl nlohmann_json::nlohmann_json)
  endif()
  if(tests)
    tessera_test(${name}_test ${tests} DEPS ${name} ${ARG_DEPS})
    if(name STREQUAL "io")
      target_compile_definitions(io_test PRIVATE TESSERA_TEST_DATA="${CMAKE_SOURCE_DIR}/../shared/data")
    endif()
  endif()
endfunction()

# tessera_test(name sources... DEPS libraries... [SHARDS n]): a GoogleTest program, one line of ctest,
# or n lines that share its cases: a long one then keeps all cores busy.
function(tessera_test name)
  cmake_parse_arguments(ARG "" "SHARDS" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  if(name MATCHES "^(io|engine)_test$")  # they also read the fuzzers' seeds
    target_compile_definitions(${name} PRIVATE TESSERA_FUZZ_CORPUS="${CMAKE_SOURCE_DIR}/tests/fuzz/corpus")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest_main)
  if(TESSERA_TORCH AND "tensor" IN_LIST ARG_DEPS)
    tessera_use_torch_test(${name})
  else()
    target_link_libraries(${name} PRIVATE tessera_test_flags)
    target_precompile_headers(${name} REUSE_FROM tessera_test_pch)
  endif()
  tessera_add_test(${name} SHARDS ${ARG_SHARDS})
endfunction()

# tessera_add_test(program [SHARDS n]): lines of ctest for a GoogleTest program. Parts of a long one come
# first (COST). OpenBLAS is held to one thread, as in the program: of two that spin for each other while ctest
# runs another test beside them, pFedHT's conformance needs twice the CPU time. TESSERA_BLAS_AGAIN: all programs of a test
# keep the core type that OpenBLAS takes, for `tessera` itself would start again with a better one and differ in last bits.
function(tessera_add_test program)
  cmake_parse_arguments(ARG "" "SHARDS" "" ${ARGN})
  set(environment OPENBLAS_NUM_THREADS=1 TESSERA_BLAS_AGAIN=test)
  if(NOT ARG_SHARDS)
    add_test(NAME ${program} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${program} PROPERTIES ENVIRONMENT "${environment}")
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(part ${program}_${shard})
    add_test(NAME ${part} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${part} PROPERTIES COST 100
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# tessera_use_torch_test(program): tests that use torch.
function(tessera_use_torch_test name)
  target_link_libraries(${name} PRIVATE tessera_torch tessera_test_flags)
  target_precompile_headers(${name} REUSE_FROM tessera_torch_test_pch)
endfunction()
