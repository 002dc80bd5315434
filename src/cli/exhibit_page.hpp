// From evidence to what the page of an exhibit shows.
#pragma once

#include "cli/evidence.hpp"
#include "report/reproduced.hpp"

namespace tessera {

/// `remarks` come first among those of the page.
ReproducedExhibit reproduced(const Evidence& evidence, const std::vector<std::string>& remarks);

}  // namespace tessera
