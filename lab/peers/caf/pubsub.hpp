// 1,000 groups post to 100,000 sessions, every 100 ms.
#pragma once

#include <algorithm>
#include <set>

#include "lab.hpp"

namespace pubsub {

constexpr int full_sessions = 100000;
constexpr uint64_t groups = 1000;
constexpr uint64_t period_ns = 100000000;

using Latencies = std::vector<uint64_t>;

class Session : public caf::event_based_actor {
public:
    Session(caf::actor_config& config, uint64_t posts, caf::actor sink)
        : event_based_actor(config), posts_(posts), sink_(std::move(sink)) {
        latencies_.reserve(posts);
    }

    caf::behavior make_behavior() override {
        return {
            // A post: the time at which it was due.
            [this](uint64_t due) {
                latencies_.push_back(lab::now_ns() - due);
                if (latencies_.size() == posts_)
                    send(sink_, std::move(latencies_));
            },
        };
    }

private:
    uint64_t posts_;
    caf::actor sink_;
    Latencies latencies_;
};

class Publisher : public caf::event_based_actor {
public:
    Publisher(caf::actor_config& config, lab::Table subscribers, uint64_t rounds)
        : event_based_actor(config), subscribers_(std::move(subscribers)), rounds_(rounds) {}

    caf::behavior make_behavior() override {
        return {
            // The time of the first post.
            [this](uint64_t begun) {
                due_ = begun;
                publish();
            },
            [this](lab::go_atom) { publish(); },
        };
    }

private:
    // Sends what is due, and waits for the next time if that is not yet.
    void publish() {
        auto now = lab::now_ns();
        for (; round_ < rounds_ && due_ <= now; now = lab::now_ns()) {
            for (auto& subscriber : subscribers_)
                send(subscriber, due_);
            ++round_;
            due_ += period_ns;
        }
        if (round_ < rounds_)
            delayed_send(this, std::chrono::nanoseconds(due_ - now), lab::go_atom::value);
    }

    lab::Table subscribers_;
    uint64_t rounds_, round_ = 0, due_ = 0;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto sessions = asked.scaled(full_sessions);
    uint64_t rounds = asked.scale > 1 ? 3 : 20, memberships = 0;
    std::vector<lab::Table> members(groups);
    for (int number = 0; number < sessions; ++number) {
        lab::Random random(static_cast<uint64_t>(number));
        std::set<uint64_t> joined;
        for (auto left = 1 + random.below(4); left > 0; --left)
            joined.insert(random.below(groups));
        auto session = self->spawn<Session>(rounds * joined.size(), caf::actor{self});
        for (auto group : joined)
            members[group].push_back(session);
        memberships += joined.size();
    }
    lab::Table publishers;
    for (auto& subscribers : members)
        publishers.push_back(self->spawn<Publisher>(std::move(subscribers), rounds));
    auto begun = lab::now_ns();
    for (auto& publisher : publishers)
        self->send(publisher, begun);
    Latencies all;
    all.reserve(rounds * memberships);
    for (int i = 0; i < sessions; ++i)
        self->receive([&](const Latencies& own) { all.insert(all.end(), own.begin(), own.end()); });
    auto seconds = static_cast<double>(lab::now_ns() - begun) / 1e9;
    lab::check<uint64_t>("deliveries", all.size(), rounds * memberships);
    double sum = 0;
    for (auto latency : all)
        sum += static_cast<double>(latency);
    auto rank = all.begin() + static_cast<ptrdiff_t>((all.size() * 99 - 1) / 100);
    std::nth_element(all.begin(), rank, all.end());
    auto deliveries = static_cast<double>(all.size());
    return {
        {"latency_ms", sum / deliveries / 1e6},
        {"p99_ms", static_cast<double>(*rank) / 1e6},
        {"deliveries_per_s", deliveries / seconds},
    };
}

} // namespace pubsub
