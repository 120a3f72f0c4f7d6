// What the experiments share: the case, the generator, results.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <caf/all.hpp>

namespace lab {

// The measurement that the lab asks for.
struct Case {
    std::string experiment;
    std::string variant;
    int processors = 1;
    // A test's: how much smaller the benchmark is.
    int scale = 1;

    int scaled(int number) const {
        return number > scale ? number / scale : number;
    }
};

using Reading = std::map<std::string, double>;

// Ends the program at once: the actors know each other, and would never end.
[[noreturn]] inline void finish(const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);
    std::_Exit(0);
}

[[noreturn]] inline void wrong(const std::string& text) {
    finish("{\"failed\":\"" + text + "\"}");
}

template <class T>
void check(const char* what, T value, T expected) {
    if (value != expected)
        wrong(std::string(what) + ": " + std::to_string(value) + ", not " + std::to_string(expected));
}

using Clock = std::chrono::steady_clock;

inline uint64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// The CPU time of all threads.
inline uint64_t cpu_ns() {
    timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1000000000 + static_cast<uint64_t>(used.tv_nsec);
}

// The clock of a run.
class Stopwatch {
public:
    Reading stop() const {
        auto elapsed = now_ns() - begun_, used = cpu_ns() - used_;
        return {{"run_ms", static_cast<double>(elapsed) / 1e6}, {"cpu_ms", static_cast<double>(used) / 1e6}};
    }

private:
    uint64_t used_ = cpu_ns(), begun_ = now_ns();
};

// The generator of all peers.
class Random {
public:
    explicit Random(uint64_t number) : state_(number + 1) {}

    uint64_t number() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return state_ >> 33;
    }

    uint64_t below(uint64_t bound) {
        return number() % bound;
    }

private:
    uint64_t state_;
};

using go_atom = caf::atom_constant<caf::atom("go")>;

// The actors of an experiment, by number. All are there before the first is told to go.
using Table = std::vector<caf::actor>;

// Tells every actor to go.
inline void start(caf::scoped_actor& self, const Table& actors) {
    for (auto& actor : actors)
        self->send(actor, go_atom::value);
}

} // namespace lab
