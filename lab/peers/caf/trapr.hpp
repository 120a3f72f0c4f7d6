// 100 workers compute one part each of an integral, by the trapezoid rule.
#pragma once

#include <array>
#include <cmath>

#include "lab.hpp"

namespace trapr {

constexpr uint32_t workers = 100;
constexpr int full_pieces = 10000000;
constexpr double left = 1.0, right = 5.0;

inline double f(double x) {
    return 1 / (x + 1) * std::sqrt(1 + std::exp(std::sqrt(2 * x))) * std::sin(x * x * x - 1);
}

inline double area(int first, int pieces, double width) {
    double before = f(left + first * width), sum = 0;
    for (int next = first + 1; next <= first + pieces; ++next) {
        double value = f(left + next * width);
        sum += (before + value) * 0.5;
        before = value;
    }
    return sum * width;
}

class Worker : public caf::event_based_actor {
public:
    Worker(caf::actor_config& config, uint32_t part, int pieces, double width, caf::actor master)
        : event_based_actor(config), part_(part), pieces_(pieces), width_(width), master_(std::move(master)) {}

    caf::behavior make_behavior() override {
        return {
            [this](lab::go_atom) {
                send(master_, part_, area(static_cast<int>(part_) * pieces_, pieces_, width_));
                quit();
            },
        };
    }

private:
    uint32_t part_;
    int pieces_;
    double width_;
    caf::actor master_;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto pieces = asked.scaled(full_pieces);
    auto width = (right - left) / pieces;
    lab::Stopwatch watch;
    lab::Table table;
    for (uint32_t part = 0; part < workers; ++part)
        table.push_back(self->spawn<Worker>(part, pieces / static_cast<int>(workers), width, caf::actor{self}));
    lab::start(self, table);
    std::array<double, workers> parts{};
    for (uint32_t i = 0; i < workers; ++i)
        self->receive([&](uint32_t part, double own) { parts[part] = own; });
    double sum = 0;
    for (auto part : parts)
        sum += part;
    auto reading = watch.stop();
    // The sum changes by far less than the tolerance if the pieces are ten times as wide.
    auto expected = area(0, pieces / 10, 10 * width);
    if (!(std::abs(sum - expected) < 1e-6))
        lab::wrong("the integral: " + std::to_string(sum) + ", not " + std::to_string(expected));
    return reading;
}

} // namespace trapr
