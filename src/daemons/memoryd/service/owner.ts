// Finds the person that a run works for: who created the root task, if that person has a key of
// their own. With the operator's key alone, anyone could have claimed the name.
import type { Client } from '../../../platform/link.ts';
import type { PersonKeys } from '../../../platform/person-keys.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import type { MemoryRun } from '../../../wire/memoryd.ts';

const CREATORS_MAX = 1_000;
const PERSON = 'person:';

export function makeFindOwner({
  agentd,
  people,
}: {
  agentd: Pick<Client<typeof agentdRoutes>, 'getTask'>;
  people: Pick<PersonKeys, 'has'>;
}): (run: MemoryRun) => Promise<string | undefined> {
  /** A task keeps its creator. */
  const creators = new Map<string, string>();
  return async ({ root_task_id: id }) => {
    let creator = creators.get(id);
    if (creator === undefined) {
      const { task } = await agentd.getTask({ params: { id } });
      creator = task.created_by;
      if (creators.size >= CREATORS_MAX) creators.clear();
      creators.set(id, creator);
    }
    const name = creator.startsWith(PERSON) ? creator.slice(PERSON.length) : undefined;
    return name !== undefined && people.has(name) ? name : undefined;
  };
}
