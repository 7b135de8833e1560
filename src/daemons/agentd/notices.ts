// Notifies people by mail of results of their tasks, questions and messages to them. What is due
// is in the store until maild has delivered it, so that no task waits and nothing is lost.
import type { Clock } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import type { MessageView, TaskView, WaitView } from '../../wire/agentd.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { MailNotice, maildRoutes } from '../../wire/maild.ts';
import { formatText } from './message-rules.ts';
import { type NoticeText, writeMessage, writeQuestion, writeResult } from './notice-text.ts';
import type { DigestOrder, DuePersonNotice, NoticeSubject } from './store/notices.ts';
import type { AgentdStore } from './store/store.ts';
import type { CommittedWrite } from './store/tx.ts';

export type PersonNotices = {
  onCommitted(committed: CommittedWrite): void;
  /** Something is due that no event tells of. */
  wake(): void;
  begin(): void;
  stop(): Promise<void>;
};

const BACKOFF_MS = { min: 200, max: 5_000 };
const BATCH_MAX = 20;

export function makePersonNotices(deps: {
  store: AgentdStore;
  maild: Pick<Client<typeof maildRoutes>, 'deliverNotices'>;
  clock: Clock;
  log: Log;
  writeDigest(order: { person: string; digest: DigestOrder; untilMs: number }): Promise<NoticeText>;
  failpoint(name: string): void;
}): PersonNotices {
  const { store, maild, clock, log, writeDigest, failpoint } = deps;

  const readDigest = ({ person, digest, at_ms }: DuePersonNotice) =>
    writeDigest({
      person: `person:${person}`,
      digest: JSON.parse(digest!) as DigestOrder,
      untilMs: Number(at_ms),
    });

  /** Undefined if it was pruned, or the question has ended meanwhile. */
  const build = async (due: DuePersonNotice): Promise<MailNotice | undefined> => {
    const [ref = '', subject = ''] = due.id.split('.');
    try {
      const text =
        due.digest === null
          ? await readText(store, ref, subject as NoticeSubject)
          : await readDigest(due);
      if (text === undefined) return undefined;
      return {
        id: due.id,
        kind: subject as NoticeSubject,
        to: due.person,
        ...text,
        at: toTimestamp(Number(due.at_ms)),
      };
    } catch (error) {
      if (isFault(error, 'not_found') || isFault(error, 'pruned')) return undefined;
      throw error;
    }
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      const due = await store.dueNotices(BATCH_MAX);
      if (due.length === 0) return undefined;
      const found = await Promise.all(due.map(build));
      const notices = found.filter((notice) => notice !== undefined);
      failpoint('agentd.before-notices');
      if (notices.length > 0) await maild.deliverNotices({ body: { notices } });
      failpoint('agentd.after-notices');
      await store.endNotices(due.map(({ id }) => id));
      return due.length === BATCH_MAX ? clock.nowMs() : undefined;
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.debug('maild could not deliver notices; retrying', { error }),
  });

  return {
    onCommitted({ events }) {
      if (events.some(mayBeNoticed)) loop.wake();
    },
    wake: () => loop.wake(),
    begin: () => loop.wake(),
    stop: () => loop.stop(),
  };
}

const mayBeNoticed = ({ event, status, data }: EventDraft): boolean =>
  event === 'task.ended' ||
  (event === 'wait.opened' && status === 'question') ||
  (event === 'message.sent' && String(data?.to).startsWith('person:'));

async function readText(
  store: AgentdStore,
  ref: string,
  subject: NoticeSubject,
): Promise<NoticeText | undefined> {
  if (subject === 'result') return writeResult((await store.task(ref)) as TaskView);
  if (subject === 'question') {
    const wait = (await store.wait(ref)) as WaitView;
    return wait.status === 'open' ? writeQuestion(wait, await store.task(wait.task_id)) : undefined;
  }
  const message = (await store.message(ref)) as MessageView;
  return writeMessage(message, formatText(message.parts));
}
