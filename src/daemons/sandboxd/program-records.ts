// Records what people do with programs in boxes, as events: further commands, homes they remove.
import { randomUUID } from 'node:crypto';
import { sha256Hex } from '../../platform/json.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { BoxId } from '../../wire/primitives.ts';

export type BoxOwnerFields = Required<
  Pick<EventDraft, 'run_id' | 'agent' | 'task_id' | 'root_task_id'>
>;
type EventData = NonNullable<EventDraft['data']>;

export type ProgramMethods = {
  recordHomeRemoved(id: string, how: { by: string; bytes: number; entries: number }): Promise<void>;
  /** Before it starts; its end is recorded with the function. */
  recordCommand(
    box: BoxId,
    of: BoxOwnerFields,
    command: { by: string; argv: readonly string[] },
  ): Promise<{ end(how: { status: string; data?: EventData }): Promise<void> }>;
};

export function makeProgramMethods(
  db: Database,
  outbox: Outbox,
  eventFields: (box: BoxOwnerFields) => Partial<EventDraft>,
): ProgramMethods {
  return {
    async recordHomeRemoved(id, { by, bytes, entries }) {
      await db.write((sql) =>
        outbox.add(sql, {
          // A new home may come in its place.
          id: `${id}.pruned.${randomUUID().slice(0, 8)}`,
          event: 'data.pruned',
          principal: by,
          status: 'homes',
          data: { home: id, bytes, entries, cause: 'a person removed it' },
        }),
      );
      outbox.wake();
    },
    async recordCommand(box_id, of, { by, argv }) {
      const id = `${box_id}.command.${randomUUID().slice(0, 8)}`;
      const data = { box_id, words: argv.length, argv_sha256: sha256Hex(JSON.stringify(argv)) };
      const record = async (
        what: 'attempted' | 'ended',
        how: Pick<EventDraft, 'status' | 'data'>,
      ) => {
        const event = `sandbox.command.${what}` as const;
        const draft = { id: `${id}.${what}`, event, ...eventFields(of), principal: by, ...how };
        await db.write((sql) => outbox.add(sql, { ...draft, data: { ...data, ...how.data } }));
        outbox.wake();
      };
      await record('attempted', {});
      return { end: (how) => record('ended', how) };
    },
  };
}
