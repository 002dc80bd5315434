set(flags -std=c++20 -fsyntax-only)
list(REMOVE_ITEM INCLUDES "" /usr/include)  # as -isystem it would hide the C library's own headers
foreach(folder ${INCLUDES})
  list(APPEND flags -isystem ${folder})
endforeach()
execute_process(COMMAND ${COMPILER} ${flags} -DTESSERA_VERSION="x" ${SOURCE} RESULT_VARIABLE code
                ERROR_VARIABLE said OUTPUT_VARIABLE said)
if(code EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, and must not")
endif()
if(NOT said MATCHES "${WORDS}")
  message(FATAL_ERROR "${SOURCE} does not compile, but for another reason:\n${said}")
endif()
