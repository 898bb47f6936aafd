// Test data from outside the repository, in the one place where a test may skip.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace plumb::text {

// Vectors of other projects, beside the checkout. Where the folder is, every file in it is required.
inline const std::string kVectorFolder = PLUMB_SOURCE_DIR "/../shared/vectors/";
// What tools/fetch-vocabularies wrote.
inline const std::string kVocabularyFolder = PLUMB_SOURCE_DIR "/build/vocabularies/";

}  // namespace plumb::text

// Skips the calling test when data that cannot be in the repository is not on this machine, and says which.
#define PLUMB_NEEDS_OUTSIDE_DATA(path, how_to_get_it) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not on this machine: " << (path) << " (" << (how_to_get_it) << ")"
#define PLUMB_NEEDS_VECTORS() PLUMB_NEEDS_OUTSIDE_DATA(::plumb::text::kVectorFolder, "vectors of other projects")
#define PLUMB_NEEDS_VOCABULARY(name) \
  PLUMB_NEEDS_OUTSIDE_DATA(::plumb::text::kVocabularyFolder + (name) + ".json", "tools/fetch-vocabularies")
