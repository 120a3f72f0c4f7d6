%% Ten pairs of processes compute the terms of the logistic map.
-module(logm).

-export([run/1]).

-define(PAIRS, 10).
-define(TERMS, 25000).

run(Case) ->
    Terms = lab:scaled(Case, ?TERMS),
    Watch = lab:start_watch(),
    Sink = self(),
    Numbers = lists:seq(0, ?PAIRS - 1),
    [begin
        Computer = spawn_link(fun() -> computer(rate(Number)) end),
        spawn_link(fun() -> controller(Number, Terms, Computer, Sink) end)
    end || Number <- Numbers],
    Results = lists:sort(lab:collect(?PAIRS)),
    Reading = lab:stop(Watch),
    Sum = lists:sum([X || {_, X} <- Results]),
    lab:check("the sum", Sum, lists:sum([sequential(Terms, rate(Number), start(Number)) || Number <- Numbers])),
    Reading.

rate(Number) -> 3.46 + 0.0025 * Number.

start(Number) -> 0.0025 * (Number + 1).

controller(Number, Terms, Computer, Sink) ->
    Sink ! {result, {Number, terms(Terms, start(Number), Computer)}}.

terms(0, X, _) -> X;
terms(Left, X, Computer) ->
    Computer ! {compute, self(), X},
    receive {term, Next} -> terms(Left - 1, Next, Computer) end.

computer(Rate) ->
    receive
        {compute, From, X} ->
            From ! {term, Rate * X * (1.0 - X)},
            computer(Rate)
    end.

sequential(0, _, X) -> X;
sequential(Left, Rate, X) -> sequential(Left - 1, Rate, Rate * X * (1.0 - X)).
