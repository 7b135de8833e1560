// Orders the tasks of a preset, so that each comes after those it waits for. Pure.
type OrderedTask = { id: string; after?: string[] | undefined };

/** Names that no task has are passed over; another check reports them. */
export function sortTasks<T extends OrderedTask>(tasks: readonly T[]): T[] {
  const left = [...tasks];
  const done = new Set<string>();
  const sorted: T[] = [];
  for (;;) {
    const open = new Set(left.map(({ id }) => id));
    const at = left.findIndex(({ after = [] }) =>
      after.every((id) => done.has(id) || !open.has(id)),
    );
    if (at < 0) return sorted;
    const [next] = left.splice(at, 1);
    sorted.push(next!);
    done.add(next!.id);
  }
}

/** Returns one cycle, from a task back to itself. */
export function findTaskCycle(tasks: readonly OrderedTask[]): string[] | undefined {
  const sorted = new Set(sortTasks(tasks).map(({ id }) => id));
  const left = new Map(tasks.filter(({ id }) => !sorted.has(id)).map((task) => [task.id, task]));
  let at = left.keys().next().value;
  if (at === undefined) return undefined;
  const path: string[] = [];
  while (!path.includes(at)) {
    path.push(at);
    const next: string | undefined = left.get(at)!.after?.find((id) => left.has(id));
    if (next === undefined) return undefined;
    at = next;
  }
  return [...path.slice(path.indexOf(at)), at];
}
