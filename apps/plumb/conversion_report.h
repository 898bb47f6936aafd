// What a conversion did, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "checkpoint_output.h"
#include "conversion.h"
#include "kl_report.h"

namespace plumb::app {

struct ConversionReport {
  const std::string& input;
  const std::string& output;
  const Conversion& conversion;
  const Written& written;
  const std::optional<KlReport>& kl;
};

std::string conversion_text(const ConversionReport& report);
// The keys that docs/CLI.md lists.
nlohmann::ordered_json conversion_json(const ConversionReport& report);

}  // namespace plumb::app
