# What every target shares: language level, warnings as errors, exact floating point, sanitizers.
add_library(kvasir_flags INTERFACE)
target_compile_features(kvasir_flags INTERFACE cxx_std_20)
# -ffp-contract=off: docs/NUMERICS.md forbids fused multiply-add; it is not a matter of taste.
target_compile_options(kvasir_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror
  -ffp-contract=off -fno-math-errno -fvisibility=hidden)
if(KVASIR_SANITIZE)
  # Instrumented code hides from g++ 12 what is initialised, in its own headers too (<regex>, AVX-512 intrinsics).
  target_compile_options(kvasir_flags INTERFACE -Wno-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(kvasir_flags INTERFACE -fsanitize=${KVASIR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(kvasir_flags INTERFACE -fsanitize=${KVASIR_SANITIZE})
endif()
if(KVASIR_FUZZ)
  target_compile_options(kvasir_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# kvasir_library(NAME [LINK lib...]): the library of this folder, from every source directly in it.
function(kvasir_library name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.h)
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE kvasir_flags PUBLIC ${arg_LINK})
endfunction()

# kvasir_program(NAME [LINK lib...]): an executable from every source directly in this folder.
function(kvasir_program name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.h)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE kvasir_flags ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()
