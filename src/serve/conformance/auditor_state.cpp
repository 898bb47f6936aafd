// Checks of the whole state, at any moment: pools, tables, tracks, tree.
#include <algorithm>
#include <string>

#include "serve/conformance/auditor.h"

namespace plumb::conformance {
namespace {

using kernels::kNoPage;

std::uint64_t extend_hash(std::uint64_t h, std::span<const std::int32_t> tokens) {
  for (const std::int32_t t : tokens) h = (h ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(t) + 1U)) * 0x9E3779B97F4A7C15U;
  return h ^ (h >> 29);
}

std::string number(std::int64_t n) { return std::to_string(n); }

}  // namespace

void Auditor::learn_committed(const Ghost& ghost, std::int32_t computed) {
  std::vector<std::int32_t> text = ghost.prompt;
  text.insert(text.end(), ghost.settled_answer.begin(), ghost.settled_answer.end());
  std::uint64_t h = 1;
  for (std::size_t at = 0; at + kv::kPageRows <= std::min(static_cast<std::size_t>(computed), text.size()); at += kv::kPageRows) {
    h = extend_hash(h, std::span(text).subspan(at, kv::kPageRows));
    committed_.insert(h);
  }
}

void Auditor::check_state() {
  check_pools();
  check_tracks();
  check_tree();
  const auto busy = static_cast<std::size_t>(std::max(scheduler_.peek_busy(), 0));
  check("C5", busy == open_.size(), [&] { return number(scheduler_.peek_busy()) + " steps in flight by the scheduler's count, " + number(static_cast<std::int64_t>(open_.size())) + " opened and not settled"; });
  if (scheduler_.peek_blocked()) ++happened_.blocked;
}

// C10, C17: every page has exactly the holders that refer to it, and free means free.
void Auditor::check_pools() {
  const auto& classes = engine_.layout().classes;
  const std::size_t pools = classes.size() + (engine_.aux() != nullptr ? 1 : 0);
  const std::uint64_t settled = scheduler_.parts().steps.settled.peek();
  for (std::size_t c = 0; c < pools; ++c) {
    const bool aux = c == classes.size();
    const kv::PagePool& pool = aux ? *engine_.aux() : engine_.pool(c);
    std::vector<std::int32_t> holders(static_cast<std::size_t>(pool.pages()), 0);
    const auto hold = [&](kv::PageId page) {
      if (page != kNoPage) ++holders[static_cast<std::size_t>(page)];
    };
    for (const auto& [id, request] : scheduler_.peek_requests()) {
      if (request->track.peek() == nullptr) continue;
      const kv::Sequence& sequence = request->track.peek()->sequence;
      if (aux) {
        hold(sequence.peek_aux());
        hold(sequence.peek_aux_source());
      } else {
        for (const kv::PageId page : sequence.peek_held()[c].pages) hold(page);
      }
    }
    if (engine_.tree() != nullptr) engine_.tree()->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) { hold(aux ? n.aux : n.pages[c]); });
    if (aux) {
      for (const Open& o : open_) {
        for (const auto& [where, page] : o.written) {
          if (where == c) hold(page);  // states on their way to the tree
        }
      }
    }
    std::vector<char> seen(holders.size(), 0);
    bool once = true;
    pool.peek_free().each([&](kv::PageId page) {
      once = once && seen[static_cast<std::size_t>(page)]++ == 0 && pool.peek_refs()[static_cast<std::size_t>(page)] == 0;
    });
    for (const auto& waiting : pool.peek_limbo()) {
      once = once && seen[static_cast<std::size_t>(waiting.page)]++ == 0 && pool.peek_refs()[static_cast<std::size_t>(waiting.page)] == 0;
      check("C10", waiting.step > settled, "a page waits for a step that has settled");
    }
    check("C10", once, "a page is free twice, or free and held");
    std::int32_t held = 0;
    for (std::size_t p = 0; p < holders.size(); ++p) {
      held += holders[p] > 0 ? 1 : 0;
      if (!check(aux ? "C24" : "C17", holders[p] == pool.peek_refs()[p], [&] {
            return "page " + number(static_cast<std::int64_t>(p)) + " of class " + number(static_cast<std::int64_t>(c)) + " has " + number(pool.peek_refs()[p]) + " references and " + number(holders[p]) + " holders";
          })) {
        break;
      }
    }
    const auto idle = pool.peek_free().size() + static_cast<std::int32_t>(pool.peek_limbo().size());
    check(aux ? "C24" : "C17", held + idle == pool.pages(), [&] { return number(held) + " held and " + number(idle) + " idle pages of " + number(pool.pages()); });
    for (const Open& o : open_) {
      for (const auto& [where, page] : o.written) {
        if (where == c) check("C10", pool.peek_refs()[static_cast<std::size_t>(page)] > 0 || seen[static_cast<std::size_t>(page)] == 0 || std::any_of(pool.peek_limbo().begin(), pool.peek_limbo().end(), [page = page](const auto& w) { return w.page == page; }), "a page that a launched step writes is free");
      }
    }
  }
}

void Auditor::check_tracks() {
  const auto& classes = engine_.layout().classes;
  const kv::SlotTable& slots = engine_.slots();
  std::set<std::int32_t> rows(slots.peek_free_rows().begin(), slots.peek_free_rows().end());
  check("C17", rows.size() == slots.peek_free_rows().size(), "a row of the page tables is free twice");
  std::size_t tracks = 0;
  std::size_t waiting = 0;
  for (const auto& [id, request] : scheduler_.peek_requests()) {
    const Ghost& ghost = ghosts_.at(id);
    const decode::Track* track = request->track.peek().get();
    check("C21", (track != nullptr) == (request->stage.peek() == Stage::running || (request->stage.peek() == Stage::closing)), "a waiting request has a track, or a running one has none");
    const bool listed = std::find(scheduler_.peek_running().begin(), scheduler_.peek_running().end(), request.get()) != scheduler_.peek_running().end();
    check("C17", listed == (track != nullptr), "the list of running requests is not that of tracks");
    std::vector<std::int32_t> text = ghost.prompt;
    text.insert(text.end(), ghost.settled_answer.begin(), ghost.settled_answer.end());
    if (track == nullptr) {
      ++waiting;
      check("C21", request->tokens.peek() == text, "a waiting request does not have its prompt and answer");
      continue;
    }
    ++tracks;
    const kv::Sequence& sequence = track->sequence;
    check("C17", rows.insert(sequence.row()).second, "two sequences on one row, or a row that is free");
    check("C9", track->tokens.peek() == text, "the track's tokens are not what was drawn and delivered");
    const std::int32_t computed = track->computed.peek();
    const std::int32_t launched = track->launched.peek();
    check("C2", computed == sequence.peek_committed(), [&] { return "computed " + number(computed) + ", committed " + number(sequence.peek_committed()); });
    const Open::Part flying = in_flight_of(id);
    check("C2", launched == computed + flying.rows && track->drawn.peek() == flying.draws, [&] {
      return "launched " + number(launched) + ", computed " + number(computed) + ", and " + number(flying.rows) + " rows in flight";
    });
    check("C2", track->in_flight.peek() > 0 || (launched == computed && track->drawn.peek() == 0), [&] { return "at rest: launched " + number(launched) + ", computed " + number(computed) + ", drawn " + number(track->drawn.peek()); });
    check("C2", launched >= computed && launched - computed <= std::max(engine_.layout().options.chunk_rows, scheduler_.loop().depth()), "launched leads by more than a chunk or a chain");
    check("C2", request->stage.peek() != Stage::running || computed < track->extend_end || static_cast<std::int32_t>(text.size()) >= computed, "more positions computed than tokens");
    check("C13", (ghost.chunks_in_flight > 0) == track->chunk.peek() && ghost.chunks_in_flight <= 1, "the chunk flag is not the chunks in flight");
    check("C4", track->drawn.peek() > 0 || track->pending.peek() == decode::Pending::host, "a settled token is still looked for on the device");
    check("C7", (request->stage.peek() == Stage::closing) == track->closing.peek(), "the request's end and the track's do not agree");
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const auto layer_class = static_cast<std::int32_t>(c);
      const kv::Sequence::Held& held = sequence.peek_held()[c];
      const kv::Residency& r = classes[c].residency;
      check("C1", launched == 0 || (held.first * kv::kPageRows <= r.first_live(computed) && held.end() * kv::kPageRows >= launched), [&] {
        return "class " + number(layer_class) + " holds pages [" + number(held.first) + ", " + number(held.end()) + ") for " + number(launched) + " positions";
      });
      std::int32_t named = 0;
      for (std::int32_t i = 0; i < classes[c].geometry.table_pages; ++i) named += slots.peek(layer_class, sequence.row(), i) != kNoPage ? 1 : 0;
      check("C1", named == static_cast<std::int32_t>(held.pages.size()), "the row of the table names pages that the sequence does not hold, or not all it does");
      for (std::size_t i = 0; i < held.pages.size(); ++i) {
        const std::int32_t index = r.cell({(held.first + static_cast<std::int32_t>(i)) * kv::kPageRows}).table_index;
        if (!check("C1", slots.peek(layer_class, sequence.row(), index) == held.pages[i], "a table entry is not the page that the sequence holds")) break;
      }
    }
  }
  check("C20", rows.size() == static_cast<std::size_t>(slots.rows()), "a row of the page tables is neither free nor owned");
  check("C17", waiting == scheduler_.peek_waiting(), "requests that neither run nor wait");
  check("C17", tracks == scheduler_.peek_running().size(), "running requests without tracks");
}

// C14, C15: structure and locks; sequences stand where their committed pages end; nodes spell computed texts.
void Auditor::check_tree() {
  const kv::PrefixTree* tree = engine_.tree();
  if (tree == nullptr) return;
  std::vector<kv::NodeId> standing;
  std::unordered_map<kv::NodeId, std::pair<std::int32_t, std::uint64_t>> at{{kv::kRoot, {0, 1}}};  // depth in pages, hash
  std::vector<kv::PrefixTree::NodeFacts> pending;
  std::unordered_set<std::uint64_t> uses;
  bool distinct = true;
  tree->peek_nodes([&](const kv::PrefixTree::NodeFacts& n) {
    pending.push_back(n);
    distinct = distinct && uses.insert(n.last_use).second;
  });
  check("C14", distinct, "two nodes were used at the same moment: which is evicted first is chance");
  for (std::size_t left = pending.size(); left > 0;) {
    const std::size_t before = left;
    for (auto& n : pending) {
      if (n.id < 0) continue;
      const auto parent = at.find(n.parent);
      if (parent == at.end()) continue;
      const std::uint64_t h = extend_hash(parent->second.second, n.tokens);
      at.emplace(n.id, std::pair{parent->second.first + 1, h});
      check("C15", committed_.contains(h), "a node spells a text that nobody computed");
      n.id = -1;
      --left;
    }
    if (!check("C14", left < before, "nodes that no path from the root reaches")) return;
  }
  for (const auto& [id, request] : scheduler_.peek_requests()) {
    if (request->track.peek() == nullptr) continue;
    const kv::Sequence& sequence = request->track.peek()->sequence;
    standing.push_back(sequence.peek_node());
    const auto place = at.find(sequence.peek_node());
    if (!check("C14", place != at.end(), "a sequence stands on a node that is gone")) continue;
    check("C14", place->second.first == sequence.peek_committed() / kv::kPageRows, [&] {
      return "a sequence of " + number(sequence.peek_committed()) + " positions stands " + number(place->second.first) + " pages deep";
    });
  }
  const Status whole = tree->check_integrity(standing);
  check("C14", whole.ok(), [&] { return whole.error().to_string(); });
}

}  // namespace plumb::conformance
