// The smallest program that uses Plumb as a library: opens a model, prints what it writes as it writes it.
// usage: hello MODEL PROMPT
#include <plumb/plumb.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: hello MODEL PROMPT\n";
    return 2;
  }

  plumb::Result<plumb::Engine> engine = plumb::Engine::open(argv[1]);
  if (!engine) {
    std::cerr << engine.error().to_string() << '\n';
    return 1;
  }

  plumb::Request request;
  request.prompt = argv[2];
  request.max_tokens = 64;
  const plumb::Result<plumb::Event> finished = engine->generate(request, [](const plumb::Event& event) {
    std::cout << event.text << std::flush;
    return true;  // false would cancel
  });
  if (!finished) {
    std::cerr << finished.error().to_string() << '\n';
    return 1;
  }
  std::cout << "\n[" << finished->usage.completion_tokens << " tokens, ended by " << plumb::to_string(finished->finish) << "]\n";
}
