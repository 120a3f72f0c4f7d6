// 20 workers ask one actor that owns a sorted linked list, and wait for each answer.
#pragma once

#include "lab.hpp"

namespace csll {

constexpr uint32_t workers = 20;
constexpr uint64_t numbers = 524287;
constexpr int full_requests = 8000;

using contains_atom = caf::atom_constant<caf::atom("contains")>;
using insert_atom = caf::atom_constant<caf::atom("insert")>;
using size_atom = caf::atom_constant<caf::atom("size")>;

struct Node {
    uint64_t value;
    Node* next;
};

class List : public caf::event_based_actor {
public:
    List(caf::actor_config& config, const lab::Table& workers, caf::actor sink)
        : event_based_actor(config), workers_(workers), sink_(std::move(sink)) {}

    ~List() override {
        while (head_)
            delete std::exchange(head_, head_->next);
    }

    caf::behavior make_behavior() override {
        return {
            [this](contains_atom, uint32_t worker, uint64_t value) {
                auto place = place_of(value);
                send(workers_[worker], is_at(place, value));
            },
            [this](insert_atom, uint32_t worker, uint64_t value) {
                auto place = place_of(value);
                auto is_new = !is_at(place, value);
                if (is_new)
                    *place = new Node{value, *place};
                send(workers_[worker], is_new);
            },
            [this](size_atom, uint32_t worker) { send(workers_[worker], size()); },
            [this](size_atom) { send(sink_, size()); },
        };
    }

private:
    // Returns the link to the first node that is not less.
    Node** place_of(uint64_t value) {
        auto place = &head_;
        while (*place && (*place)->value < value)
            place = &(*place)->next;
        return place;
    }

    static bool is_at(Node** place, uint64_t value) {
        return *place && (*place)->value == value;
    }

    uint64_t size() const {
        uint64_t nodes = 0;
        for (auto node = head_; node; node = node->next)
            ++nodes;
        return nodes;
    }

    const lab::Table& workers_;
    caf::actor sink_;
    Node* head_ = nullptr;
};

class Worker : public caf::event_based_actor {
public:
    Worker(caf::actor_config& config, uint32_t number, int requests, caf::actor list, caf::actor sink)
        : event_based_actor(config), number_(number), requests_(requests), list_(std::move(list)),
          sink_(std::move(sink)), random_(number) {}

    caf::behavior make_behavior() override {
        return {
            [this](bool is_so) { answered(is_so); },
            [this](uint64_t) { answered(false); },
            [this](lab::go_atom) { ask(); },
        };
    }

private:
    void answered(bool is_so) {
        ++answers_;
        inserted_ += inserts_ && is_so;
        if (--requests_ > 0)
            ask();
        else
            send(sink_, answers_, inserted_);
    }

    void ask() {
        auto kind = random_.below(100);
        inserts_ = kind >= 1 && kind <= 10;
        if (kind == 0)
            send(list_, size_atom::value, number_);
        else if (inserts_)
            send(list_, insert_atom::value, number_, random_.below(numbers));
        else
            send(list_, contains_atom::value, number_, random_.below(numbers));
    }

    uint32_t number_;
    int requests_;
    caf::actor list_, sink_;
    lab::Random random_;
    bool inserts_ = false;
    uint64_t answers_ = 0, inserted_ = 0;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto requests = asked.scaled(full_requests);
    lab::Stopwatch watch;
    lab::Table table;
    table.reserve(workers);
    auto list = self->spawn<List>(std::cref(table), caf::actor{self});
    for (uint32_t number = 0; number < workers; ++number)
        table.push_back(self->spawn<Worker>(number, requests, list, caf::actor{self}));
    lab::start(self, table);
    uint64_t answers = 0, inserted = 0, size = 0;
    for (uint32_t i = 0; i < workers; ++i)
        self->receive([&](uint64_t own, uint64_t fresh) {
            answers += own;
            inserted += fresh;
        });
    self->send(list, size_atom::value);
    self->receive([&](uint64_t counted) { size = counted; });
    auto reading = watch.stop();
    lab::check<uint64_t>("answers", answers, workers * static_cast<uint64_t>(requests));
    lab::check("the size", size, inserted);
    return reading;
}

} // namespace csll
