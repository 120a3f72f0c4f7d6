// 20 workers ask one actor that owns a dictionary, and wait for each answer.
#pragma once

#include <unordered_map>

#include "lab.hpp"

namespace cdict {

constexpr uint32_t workers = 20;
constexpr uint64_t keys = 512;
constexpr int full_requests = 10000;

using Vector = std::vector<uint64_t>;

using written_atom = caf::atom_constant<caf::atom("written")>;
using none_atom = caf::atom_constant<caf::atom("none")>;
using count_atom = caf::atom_constant<caf::atom("count")>;

// The value of a dictionary: a word, or a vector of words.
template <class Value>
class Dictionary : public caf::event_based_actor {
public:
    Dictionary(caf::actor_config& config, const lab::Table& workers, caf::actor sink)
        : event_based_actor(config), workers_(workers), sink_(std::move(sink)) {}

    caf::behavior make_behavior() override {
        return {
            [this](uint32_t worker, uint64_t key) {
                auto found = values_.find(key);
                if (found == values_.end())
                    send(workers_[worker], none_atom::value);
                else
                    send(workers_[worker], Value(found->second));
            },
            [this](uint32_t worker, uint64_t key, Value& value) {
                values_[key] = std::move(value);
                ++writes_;
                send(workers_[worker], written_atom::value);
            },
            [this](count_atom) { send(sink_, writes_); },
        };
    }

private:
    const lab::Table& workers_;
    caf::actor sink_;
    std::unordered_map<uint64_t, Value> values_;
    uint64_t writes_ = 0;
};

template <class Value>
class Worker : public caf::event_based_actor {
public:
    Worker(caf::actor_config& config, uint32_t number, int requests, uint64_t percent, size_t words,
           caf::actor dictionary, caf::actor sink)
        : event_based_actor(config), number_(number), requests_(requests), percent_(percent), words_(words),
          dictionary_(std::move(dictionary)), sink_(std::move(sink)), random_(number) {}

    caf::behavior make_behavior() override {
        return {
            [this](const Value&) { answered(); },
            [this](none_atom) { answered(); },
            [this](written_atom) { answered(); },
            [this](lab::go_atom) { ask(); },
        };
    }

private:
    void answered() {
        ++answers_;
        if (--requests_ > 0)
            ask();
        else
            send(sink_, answers_, writes_);
    }

    void ask() {
        auto is_write = random_.below(100) < percent_;
        auto key = random_.below(keys);
        if (is_write) {
            ++writes_;
            send(dictionary_, number_, key, value());
        } else {
            send(dictionary_, number_, key);
        }
    }

    Value value() const {
        if constexpr (std::is_same_v<Value, Vector>)
            return Vector(words_, answers_);
        else
            return answers_;
    }

    uint32_t number_;
    int requests_;
    uint64_t percent_;
    size_t words_;
    caf::actor dictionary_, sink_;
    lab::Random random_;
    uint64_t answers_ = 0, writes_ = 0;
};

template <class Value>
lab::Reading measure(int requests, uint64_t percent, size_t words, caf::scoped_actor& self) {
    lab::Stopwatch watch;
    lab::Table table;
    table.reserve(workers);
    auto dictionary = self->spawn<Dictionary<Value>>(std::cref(table), caf::actor{self});
    for (uint32_t number = 0; number < workers; ++number)
        table.push_back(self->spawn<Worker<Value>>(number, requests, percent, words, dictionary, caf::actor{self}));
    lab::start(self, table);
    uint64_t answers = 0, writes = 0, counted = 0;
    for (uint32_t i = 0; i < workers; ++i)
        self->receive([&](uint64_t own, uint64_t written) {
            answers += own;
            writes += written;
        });
    auto reading = watch.stop();
    self->send(dictionary, count_atom::value);
    self->receive([&](uint64_t count) { counted = count; });
    lab::check<uint64_t>("answers", answers, workers * static_cast<uint64_t>(requests));
    lab::check("writes", counted, writes);
    return reading;
}

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto requests = asked.scaled(full_requests);
    if (asked.variant == "-")
        return measure<uint64_t>(requests, 10, 1, self);
    return measure<Vector>(requests, 20, std::stoul(asked.variant), self);
}

} // namespace cdict
