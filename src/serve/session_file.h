// Sessions on disk: what the prefix tree holds of one text, to go on after a restart. docs/FORMATS.md describes the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plumb/plumb.h"

namespace plumb {

// As Engine's members of the same name. REQUIRES: nothing in flight; the calling thread drives.
Result<std::int32_t> save_session(Engine::Impl& engine, std::span<const std::int32_t> tokens, const std::string& path);
Result<std::int32_t> restore_session(Engine::Impl& engine, const std::string& path);

}  // namespace plumb
