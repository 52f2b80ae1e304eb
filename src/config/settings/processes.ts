/** The number of processes. */
import { wholeOrAuto } from './kind.ts';

export const PROCESSES = {
  PROCESSES: wholeOrAuto(
    [1, 64],
    'processes of `serve` and `deliver`: see [Processes](#processes). `auto`: as many as the process has processor cores (CPU affinity and the CPU limit of a container count), at most 8; one fewer beside a PostgreSQL on the same machine (the embedded one, a socket or a loopback address), which needs a core too',
  ),
};
