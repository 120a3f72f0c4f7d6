%% Shortest paths between 300 nodes, by 36 processes that hold a block of 50 x 50 each.
%%
%% A block is a binary: a process shares a large binary with those it sends it to. Everything else
%% would be copied for each receiver.
-module(apsp).

-export([run/1]).

-define(BLOCK, 50).
-define(BITS, 32).
-define(ROW_BYTES, (?BLOCK * ?BITS div 8)).

run(Case) ->
    % A test has 2 x 2 blocks.
    Blocks = case Case of #{"scale" := _} -> 2; _ -> 6 end,
    Nodes = Blocks * ?BLOCK,
    Watch = lab:start_watch(),
    Main = self(),
    Places = [{R, C} || R <- lists:seq(0, Blocks - 1), C <- lists:seq(0, Blocks - 1)],
    Actors = maps:from_list([{Place, spawn_link(fun() -> wait(Place, Nodes, Main) end)} || Place <- Places]),
    [Actor ! {start, mates(Place, Actors)} || {Place, Actor} <- maps:to_list(Actors)],
    Sum = lists:sum(lab:collect(length(Places))),
    Reading = lab:stop(Watch),
    lab:check("the sum of distances", Sum, sequential(Nodes)),
    Reading.

%% Returns the processes of a place's row and column, but not its own.
mates({Row, Column} = Own, Actors) ->
    [Actor || {{R, C} = Place, Actor} <- maps:to_list(Actors), Place =/= Own, R =:= Row orelse C =:= Column].

wait({Row, Column} = Place, Nodes, Main) ->
    receive {start, Mates} -> ok end,
    Block = << <<(weight(I, J)):?BITS>> || I <- range(Row), J <- range(Column) >>,
    Last = step(0, Nodes, Place, Block, Mates),
    Main ! {result, lists:sum([Distance || <<Distance:?BITS>> <= Last])}.

range(Block) -> lists:seq(Block * ?BLOCK, Block * ?BLOCK + ?BLOCK - 1).

weight(I, I) -> 0;
weight(I, J) -> lab:number(lab:next(lab:seed(I * 300 + J))) rem 100 + 1.

step(Nodes, Nodes, _, Block, _) -> Block;
step(K, Nodes, {Row, Column} = Place, Block, Mates) ->
    Message = {K, Place, Block},
    [Mate ! Message || Mate <- Mates],
    Pivot = K div ?BLOCK,
    % The blocks above and below hold the way from k, those beside it the way to k.
    {From, To} = gather(length(Mates), K, {Pivot, Column}, {Row, Pivot}, own(Row, Pivot, Block), own(Column, Pivot, Block)),
    Within = K rem ?BLOCK,
    <<_:(Within * ?ROW_BYTES)/binary, Line:?ROW_BYTES/binary, _/binary>> = From,
    Ways = [Distance || <<Distance:?BITS>> <= Line],
    <<_:(Within * ?BITS), Lengths/bitstring>> = To,
    step(K + 1, Nodes, Place, relax(Block, Ways, Ways, head(Lengths), Lengths, <<>>), Mates).

own(Place, Place, Block) -> Block;
own(_, _, _) -> none.

%% Waits for the blocks of step k. Those of later steps stay in the queue.
gather(0, _, _, _, From, To) -> {From, To};
gather(Left, K, FromPlace, ToPlace, From, To) ->
    receive
        {K, FromPlace, Block} -> gather(Left - 1, K, FromPlace, ToPlace, Block, To);
        {K, ToPlace, Block} -> gather(Left - 1, K, FromPlace, ToPlace, From, Block);
        {K, _, _} -> gather(Left - 1, K, FromPlace, ToPlace, From, To)
    end.

head(<<Distance:?BITS, _/bitstring>>) -> Distance.

%% Returns the block with all ways by k that are shorter. `Length` is the way to k from the row.
relax(<<Old:?BITS, Rest/binary>>, [Way | Ways], Line, Length, Lengths, New) ->
    case Length + Way of
        Short when Short < Old -> relax(Rest, Ways, Line, Length, Lengths, <<New/binary, Short:?BITS>>);
        _ -> relax(Rest, Ways, Line, Length, Lengths, <<New/binary, Old:?BITS>>)
    end;
relax(<<>>, [], _, _, _, New) -> New;
relax(Rest, [], Line, _, <<_:?ROW_BYTES/binary, Lengths/bitstring>>, New) ->
    relax(Rest, Line, Line, head(Lengths), Lengths, New).

%% The same by one process. The rows are lists.
sequential(Nodes) ->
    Numbers = lists:seq(0, Nodes - 1),
    Rows = [[weight(I, J) || J <- Numbers] || I <- Numbers],
    lists:sum([lists:sum(Row) || Row <- lists:foldl(fun through/2, Rows, Numbers)]).

through(K, Rows) ->
    Ways = lists:nth(K + 1, Rows),
    [shorten(Row, Ways, lists:nth(K + 1, Row)) || Row <- Rows].

shorten([Old | Row], [Way | Ways], Length) -> [min(Old, Length + Way) | shorten(Row, Ways, Length)];
shorten([], [], _) -> [].
