// What every format writes: the numbers by name, and what is said beside them.
#pragma once

#include <map>
#include <string>

#include "export/export.hpp"
#include "tensor/fields.hpp"

namespace tessera {

inline constexpr const char* kScalingMean = "scaling.mean";
inline constexpr const char* kScalingScale = "scaling.scale";
inline constexpr const char* kNotesFile = "tessera.json";

/// Float32, contiguous: parameters and running statistics by the layers' names, and the scaling
/// where there is one: [F], or [C, 1, 1] for pictures. kInvalid as export.hpp says.
Result<TensorDict> parameters_of(const ExportedModel& model);

/// Metadata with class_names and sample_shape as JSON texts.
std::map<std::string, std::string> notes_of(const ExportedModel& model);
/// All of it as one JSON object, class_names and sample_shape as lists.
std::string notes_json(const ExportedModel& model);

}  // namespace tessera
