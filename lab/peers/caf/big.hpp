// 120 actors send pings to each other: each waits for a pong before its next ping.
#pragma once

#include "lab.hpp"

namespace big {

constexpr uint32_t actors = 120;
constexpr int full_pings = 20000;

using pong_atom = caf::atom_constant<caf::atom("pong")>;

class Player : public caf::event_based_actor {
public:
    Player(caf::actor_config& config, uint32_t number, uint64_t pings, const lab::Table& table, caf::actor sink)
        : event_based_actor(config), number_(number), pings_(pings), table_(table), sink_(std::move(sink)),
          random_(number) {}

    caf::behavior make_behavior() override {
        return {
            // A ping: the number of the actor that sent it.
            [this](uint32_t from) { send(table_[from], pong_atom::value); },
            [this](pong_atom) {
                if (++pongs_ == pings_)
                    send(sink_, pongs_);
                else
                    ping();
            },
            [this](lab::go_atom) { ping(); },
        };
    }

private:
    void ping() {
        auto other = static_cast<uint32_t>(random_.below(actors));
        if (other == number_)
            other = (number_ + 1) % actors;
        send(table_[other], number_);
    }

    uint32_t number_;
    uint64_t pings_;
    const lab::Table& table_;
    caf::actor sink_;
    lab::Random random_;
    uint64_t pongs_ = 0;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto pings = static_cast<uint64_t>(asked.scaled(full_pings));
    lab::Stopwatch watch;
    lab::Table table;
    table.reserve(actors);
    for (uint32_t number = 0; number < actors; ++number)
        table.push_back(self->spawn<Player>(number, pings, std::cref(table), caf::actor{self}));
    lab::start(self, table);
    uint64_t total = 0;
    for (uint32_t number = 0; number < actors; ++number)
        self->receive([&](uint64_t pongs) { total += pongs; });
    auto reading = watch.stop();
    lab::check<uint64_t>("pongs", total, actors * pings);
    return reading;
}

} // namespace big
