// Ten pairs of actors compute the terms of the logistic map.
#pragma once

#include "lab.hpp"

namespace logm {

constexpr uint32_t pairs = 10;
constexpr int full_terms = 25000;

inline double rate_of(uint32_t number) {
    return 3.46 + 0.0025 * number;
}

inline double start_of(uint32_t number) {
    return 0.0025 * (number + 1);
}

class Computer : public caf::event_based_actor {
public:
    Computer(caf::actor_config& config, double rate) : event_based_actor(config), rate_(rate) {}

    caf::behavior make_behavior() override {
        return {
            [this](double x) { send(controller_, rate_ * x * (1 - x)); },
            [this](caf::actor controller) { controller_ = std::move(controller); },
        };
    }

private:
    double rate_;
    caf::actor controller_;
};

class Controller : public caf::event_based_actor {
public:
    Controller(caf::actor_config& config, uint32_t number, int terms, caf::actor computer, caf::actor sink)
        : event_based_actor(config), number_(number), left_(terms), computer_(std::move(computer)),
          sink_(std::move(sink)) {}

    caf::behavior make_behavior() override {
        return {
            [this](double x) {
                if (--left_ == 0)
                    send(sink_, number_, x);
                else
                    send(computer_, x);
            },
            [this](lab::go_atom) {
                send(computer_, caf::actor{this});
                send(computer_, start_of(number_));
            },
        };
    }

private:
    uint32_t number_;
    int left_;
    caf::actor computer_, sink_;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto terms = asked.scaled(full_terms);
    lab::Stopwatch watch;
    lab::Table table;
    for (uint32_t number = 0; number < pairs; ++number) {
        auto computer = self->spawn<Computer>(rate_of(number));
        table.push_back(self->spawn<Controller>(number, terms, computer, caf::actor{self}));
    }
    lab::start(self, table);
    double results[pairs];
    for (uint32_t i = 0; i < pairs; ++i)
        self->receive([&](uint32_t number, double x) { results[number] = x; });
    auto reading = watch.stop();
    double sum = 0, expected = 0;
    for (uint32_t number = 0; number < pairs; ++number) {
        double rate = rate_of(number), x = start_of(number);
        for (int i = 0; i < terms; ++i)
            x = rate * x * (1 - x);
        sum += results[number];
        expected += x;
    }
    lab::check("the sum", sum, expected);
    return reading;
}

} // namespace logm
