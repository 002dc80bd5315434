# What examples/own-method promises, step by step. PREFIX, EXAMPLE and WORK are given by ctest.
function(must_work output)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE out ERROR_VARIABLE err
                  RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} ended with ${code}:\n${out}\n${err}")
  endif()
  set(${output} "${out}" PARENT_SCOPE)
endfunction()
function(must_contain text part)
  string(FIND "${text}" "${part}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "'${part}' is missing in:\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
must_work(ignored ${CMAKE_COMMAND} -S ${EXAMPLE} -B build -G Ninja -DCMAKE_PREFIX_PATH=${PREFIX}
          -DCMAKE_BUILD_TYPE=Release)
must_work(ignored ${CMAKE_COMMAND} --build build)
set(plugin build/libfedadam.so)
set(tessera ${PREFIX}/bin/tessera)

# The table has one line more, and the method its own page.
must_work(text ${tessera} --plugin ${plugin} methods)
must_contain("${text}" "fedadam            fedavg whose server steps by Adam")
must_work(text ${tessera} methods fedadam --plugin ${plugin})
must_contain("${text}" "Reddi et al., ICLR 2021, Algorithm 2")
must_contain("${text}" "eta = 0.03")

# Everything that a method must do.
must_work(text ${PREFIX}/bin/tessera_conformance ${plugin})
must_contain("${text}" "Methods/Conformance.LossFalls/fedadam")
must_contain("${text}" "[  PASSED  ]")

# The suite in a program of the user's own, on a method of the table.
must_work(ignored ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/own_main -B main -G Ninja
          -DCMAKE_PREFIX_PATH=${PREFIX})
must_work(ignored ${CMAKE_COMMAND} --build main)
must_work(text main/own_main --gtest_filter=*OneThread*)
must_contain("${text}" "OneThreadEqualsFour/local")
must_contain("${text}" "[  PASSED  ] 1 test.")

# A limit: without memory and with a huge tau, a step of the size of tau is FedAvg's.
must_work(ignored ${tessera} new start --from table)
set(common --set rounds=3 --quiet --json)
must_work(avg ${tessera} run start/experiment.toml --method fedavg ${common} --out avg)
must_work(adam ${tessera} run start/experiment.toml --plugin ${plugin} --method fedadam ${common}
          --out adam --set method.fedadam.beta1=0 --set method.fedadam.beta2=0
          --set method.fedadam.eta=1e6 --set method.fedadam.tau=1e6)
foreach(summary avg adam)
  string(JSON ${summary}_accuracy GET "${${summary}}" accuracy mean)
endforeach()
if(NOT avg_accuracy EQUAL adam_accuracy)
  message(FATAL_ERROR "fedadam in the limit has ${adam_accuracy}, fedavg ${avg_accuracy}")
endif()
# Without the plugin the method is not known.
execute_process(COMMAND ${tessera} check start/experiment.toml --method fedadam
                WORKING_DIRECTORY ${WORK} RESULT_VARIABLE code ERROR_VARIABLE err)
must_contain("${err}" "unknown method 'fedadam'")
# Twice the same is twice the same name.
execute_process(COMMAND ${tessera} --plugin ${plugin} --plugin ${plugin} methods
                WORKING_DIRECTORY ${WORK} RESULT_VARIABLE code ERROR_VARIABLE err)
must_contain("${err}" "there is already a method 'fedadam'")
if(NOT code EQUAL 2)
  message(FATAL_ERROR "a name that is taken ended with ${code}")
endif()
