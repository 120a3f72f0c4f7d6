%% 20 workers count the solutions of 12 queens. Boards with fewer than four queens come back to
%% the master as new work.
-module(nqn).

-export([run/1]).

-define(WORKERS, 20).
-define(THRESHOLD, 4).

run(Case) ->
    {Queens, Solutions} = case Case of #{"scale" := _} -> {8, 92}; _ -> {12, 14200} end,
    Watch = lab:start_watch(),
    Master = self(),
    Workers = list_to_tuple([spawn_link(fun() -> worker(Queens, Master) end) || _ <- lists:seq(1, ?WORKERS)]),
    element(1, Workers) ! {work, [], 0},
    Found = master(Workers, 1, 1, 0),
    Reading = lab:stop(Watch),
    lab:check("solutions", Found, Solutions),
    Reading.

%% `Open` items are not answered yet. `Turn` is the worker of the next item.
master(_, _, 0, Found) -> Found;
master(Workers, Turn, Open, Found) ->
    receive
        {work, _, _} = Work ->
            element(Turn + 1, Workers) ! Work,
            master(Workers, (Turn + 1) rem ?WORKERS, Open + 1, Found);
        {finished, Solutions} ->
            master(Workers, Turn, Open - 1, Found + Solutions)
    end.

worker(Queens, Master) ->
    receive
        {work, Board, Depth} when Depth < ?THRESHOLD ->
            [Master ! {work, [Column | Board], Depth + 1} || Column <- lists:seq(0, Queens - 1), safe(Column, Board, 1)],
            Master ! {finished, 0};
        {work, Board, Depth} ->
            Master ! {finished, solve(Queens - 1, Queens, Board, Depth, 0)}
    end,
    worker(Queens, Master).

%% A board is the list of its queens' columns, the last row first.
safe(_, [], _) -> true;
safe(Column, [Other | _], Distance)
  when Other =:= Column; Other =:= Column + Distance; Other =:= Column - Distance -> false;
safe(Column, [_ | Board], Distance) -> safe(Column, Board, Distance + 1).

%% Adds the solutions with the next queen in this column or in one before it.
solve(_, Queens, _, Queens, Found) -> Found + 1;
solve(-1, _, _, _, Found) -> Found;
solve(Column, Queens, Board, Depth, Found) ->
    case safe(Column, Board, 1) of
        true -> solve(Column - 1, Queens, Board, Depth, solve(Queens - 1, Queens, [Column | Board], Depth + 1, Found));
        false -> solve(Column - 1, Queens, Board, Depth, Found)
    end.
