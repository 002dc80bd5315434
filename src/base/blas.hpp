// The BLAS below torch: which kernels ("core type") OpenBLAS has chosen, and whether they are the
// right ones. A release knows the processors of its time; on a later one it may fall back to
// kernels that are many years older and several times slower.
#pragma once

#include <functional>
#include <string>

#include "base/processor.hpp"

namespace tessera {

/// The core type that OpenBLAS runs on ("Haswell"); empty where the BLAS is another one.
std::string blas_core();
/// For people: "OpenBLAS Haswell", or "another BLAS".
std::string blas_name();

/// What OpenBLAS reads at its start, and what a program sets that started itself again.
inline constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
inline constexpr const char* kAgainVariable = "TESSERA_BLAS_AGAIN";

/// The core type with which the program should start again; empty: it should go on as it is.
/// `core` is the one in use, `environment` gives a variable's value or null. Nothing is chosen
/// where the user has chosen, where the program was started again already, or where the core type
/// is not known here.
std::string better_core(const Processor& processor, const std::string& core,
                        const std::function<const char*(const char*)>& environment);

}  // namespace tessera
