// 20 workers count the solutions of 12 queens. Boards with fewer than four queens come back to the
// master as new work.
#pragma once

#include <array>

#include "lab.hpp"

namespace nqn {

constexpr uint32_t workers = 20;
constexpr int threshold = 4;
constexpr int most_queens = 12;

// The columns of the queens, by row.
struct Board {
    std::array<int8_t, most_queens> columns{};
    int depth = 0;

    bool is_safe(int column) const {
        for (int row = 0; row < depth; ++row) {
            int other = columns[row], distance = depth - row;
            if (other == column || other == column + distance || other == column - distance)
                return false;
        }
        return true;
    }
};

} // namespace nqn

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(nqn::Board)

namespace nqn {

using work_atom = caf::atom_constant<caf::atom("work")>;
using done_atom = caf::atom_constant<caf::atom("done")>;

class Worker : public caf::event_based_actor {
public:
    Worker(caf::actor_config& config, int queens) : event_based_actor(config), queens_(queens) {}

    caf::behavior make_behavior() override {
        return {
            [this](const Board& board) {
                if (board.depth < threshold) {
                    expand(board);
                    send(master_, done_atom::value, uint64_t{0});
                } else {
                    auto whole = board;
                    send(master_, done_atom::value, solve(whole));
                }
            },
            [this](caf::actor master) { master_ = std::move(master); },
        };
    }

private:
    void expand(const Board& board) {
        for (int column = 0; column < queens_; ++column) {
            if (!board.is_safe(column))
                continue;
            auto next = board;
            next.columns[next.depth++] = static_cast<int8_t>(column);
            send(master_, work_atom::value, next);
        }
    }

    uint64_t solve(Board& board) const {
        if (board.depth == queens_)
            return 1;
        uint64_t found = 0;
        for (int column = 0; column < queens_; ++column) {
            if (!board.is_safe(column))
                continue;
            board.columns[board.depth++] = static_cast<int8_t>(column);
            found += solve(board);
            --board.depth;
        }
        return found;
    }

    int queens_;
    caf::actor master_;
};

class Master : public caf::event_based_actor {
public:
    Master(caf::actor_config& config, int queens, caf::actor sink)
        : event_based_actor(config), queens_(queens), sink_(std::move(sink)) {}

    caf::behavior make_behavior() override {
        return {
            [this](work_atom, const Board& board) { hand_out(board); },
            [this](done_atom, uint64_t solutions) {
                found_ += solutions;
                if (--open_ == 0)
                    send(sink_, found_);
            },
            [this](lab::go_atom) {
                for (uint32_t i = 0; i < workers; ++i) {
                    team_.push_back(spawn<Worker>(queens_));
                    send(team_.back(), caf::actor{this});
                }
                hand_out(Board{});
            },
        };
    }

private:
    void hand_out(const Board& board) {
        ++open_;
        send(team_[turn_], board);
        turn_ = (turn_ + 1) % workers;
    }

    int queens_;
    caf::actor sink_;
    lab::Table team_;
    uint32_t turn_ = 0;
    uint64_t open_ = 0, found_ = 0;
};

inline lab::Reading run(const lab::Case& asked, caf::scoped_actor& self) {
    auto queens = asked.scale > 1 ? 8 : 12;
    lab::Stopwatch watch;
    auto master = self->spawn<Master>(queens, caf::actor{self});
    self->send(master, lab::go_atom::value);
    uint64_t found = 0;
    self->receive([&](uint64_t solutions) { found = solutions; });
    auto reading = watch.stop();
    lab::check<uint64_t>("solutions", found, queens == 8 ? 92 : 14200);
    return reading;
}

} // namespace nqn
