%% 100 workers compute one part each of an integral, by the trapezoid rule.
-module(trapr).

-export([run/1]).

-define(WORKERS, 100).
-define(PIECES, 10000000).
-define(LEFT, 1.0).
-define(RIGHT, 5.0).

run(Case) ->
    Pieces = lab:scaled(Case, ?PIECES),
    Each = Pieces div ?WORKERS,
    Width = (?RIGHT - ?LEFT) / Pieces,
    Watch = lab:start_watch(),
    Master = self(),
    Workers = [spawn_link(fun() -> worker(Part * Each, Each, Width, Master) end) || Part <- lists:seq(0, ?WORKERS - 1)],
    Sum = lists:foldl(fun(Worker, Sum) -> receive {part, Worker, Own} -> Sum + Own end end, 0.0, Workers),
    Reading = lab:stop(Watch),
    % The sum changes by far less than the tolerance if the pieces are ten times as wide.
    Expected = area(0, Pieces div 10, 10 * Width),
    abs(Sum - Expected) < 1.0e-6 orelse lab:check("the integral", Sum, Expected),
    Reading.

worker(First, Pieces, Width, Master) ->
    Master ! {part, self(), area(First, Pieces, Width)}.

area(First, Pieces, Width) ->
    Begin = f(?LEFT + First * Width),
    add(First + 1, First + Pieces, Width, Begin, 0.0) * Width.

%% `Before` is the value at the left end of the piece that ends at `Next`.
add(Next, Last, Width, Before, Sum) when Next =< Last ->
    Value = f(?LEFT + Next * Width),
    add(Next + 1, Last, Width, Value, Sum + (Before + Value) * 0.5);
add(_, _, _, _, Sum) -> Sum.

f(X) when is_float(X) ->
    1.0 / (X + 1.0) * math:sqrt(1.0 + math:exp(math:sqrt(2.0 * X))) * math:sin(X * X * X - 1.0).
