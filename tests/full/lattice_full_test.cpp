// The equality lattice of the bundled model, and the document made of it.
#include <gtest/gtest.h>

#include "serve/conformance/lattice.h"
#include "subprocess.h"

namespace plumb::conformance {
namespace {

TEST(LatticeFull, TheBundledModelKeepsWhatTheDocumentSays) {
  const test::ScratchFolder scratch;
  const auto results = run_lattice(PLUMB_SOURCE_DIR "/models/story", {.scratch_file = scratch.file("session")}, {}, {});
  ASSERT_TRUE(results.ok()) << results.error().to_string();
  const std::string document = test::read_file(PLUMB_SOURCE_DIR "/docs/EQUALITY.md");
  for (const ArmResult& r : *results) {
    EXPECT_TRUE(r.ok) << r.axis << ", " << r.name << ": " << r.verdict << ", " << r.witness << ", KL " << r.kl_mean << " and " << r.kl_max;
    if (!r.promised) continue;  // how far another class is away depends on the machine
    const std::string row = lattice_row(r);
    EXPECT_NE(document.find(row), std::string::npos) << "plumb contract models/story --lattice --markdown > docs/EQUALITY.md\nmissing: " << row;
  }
}

}  // namespace
}  // namespace plumb::conformance
