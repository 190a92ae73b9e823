"""Which minibatch does which actor generate, and when?

    plan       the schedule as steps, heads, places for tails and the ladder of budgets
    schedule   the plan that a schedule table holds
    uniform    schedules of equal minibatches, for prompts that nobody planned
    messages   what is told to the actors and the trainer
    settings   lag bound, pacing, refresh, carry
    fleet      the actors: who is free, who reloads
    inventory  samples on their way, and how many more may start
    carried    responses that were cut and wait for a tail
    completion which sample groups are complete
    steps      which sample groups make up a training step
    line       what a free actor is given
    unit       the Control Unit: events in, commands out
    inorder    commands carried out in the order in which they came

docs/control.md draws the states and derives the bounds.
"""
