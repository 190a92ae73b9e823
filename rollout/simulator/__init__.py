"""What would a run take on a cluster? The Control Unit, driven in virtual time.

One run, `simulate`:

- workload    true lengths of a plan
- cluster     units, their speed, and what everything costs
- price       decode steps and prefills on one actor
- engines     what is asked of one: `static` minibatches, `continuous` batching
- ledger      where every device-second went
- events      the heap
- troubles    time-outs, losses, lengths that change
- recorder    what is written down
- world       what generation and training share
- generation  the actors
- training    the training unit
- run         what a simulation gives back

A schedule on a cluster, `stage`:

- clusterfile  the cluster as a file
- modes        how generation and training share the devices
- truth        true lengths, drawn
- measures     a run in a few numbers
- compare      other ways to run the same prompts
- words        told to a person
- chrome       shown in Perfetto
"""
