// 1,000 actors send 1,000 messages each to one receiver, without waiting.
#pragma once

#include "lab.hpp"

namespace bang {

constexpr uint64_t senders = 1000;
constexpr int full_messages = 1000;

class Receiver : public caf::event_based_actor {
public:
    Receiver(caf::actor_config& config, uint64_t messages, caf::actor sink)
        : event_based_actor(config), messages_(messages), sink_(std::move(sink)) {}

    caf::behavior make_behavior() override {
        return {
            [this](uint64_t number) {
                sum_ += number;
                if (++count_ == messages_)
                    send(sink_, count_, sum_);
            },
        };
    }

private:
    uint64_t messages_, count_ = 0, sum_ = 0;
    caf::actor sink_;
};

class Sender : public caf::event_based_actor {
public:
    Sender(caf::actor_config& config, uint64_t number, uint64_t messages, caf::actor receiver)
        : event_based_actor(config), number_(number), messages_(messages), receiver_(std::move(receiver)) {}

    caf::behavior make_behavior() override {
        return {
            [this](lab::go_atom) {
                for (uint64_t i = 0; i < messages_; ++i)
                    send(receiver_, number_);
                quit();
            },
        };
    }

private:
    uint64_t number_, messages_;
    caf::actor receiver_;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto messages = static_cast<uint64_t>(asked.scaled(full_messages));
    lab::Stopwatch watch;
    auto receiver = self->spawn<Receiver>(senders * messages, caf::actor{self});
    lab::Table table;
    for (uint64_t number = 0; number < senders; ++number)
        table.push_back(self->spawn<Sender>(number, messages, receiver));
    lab::start(self, table);
    uint64_t count = 0, sum = 0;
    self->receive([&](uint64_t counted, uint64_t summed) {
        count = counted;
        sum = summed;
    });
    auto reading = watch.stop();
    lab::check<uint64_t>("messages", count, senders * messages);
    lab::check<uint64_t>("the sum", sum, messages * (senders * (senders - 1) / 2));
    return reading;
}

} // namespace bang
