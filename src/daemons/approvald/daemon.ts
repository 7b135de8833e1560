// approvald as a value: the one file that knows all its parts.
import { join } from 'node:path';
import type { Timer } from '../../platform/clock.ts';
import { daemon, type Floor, type Running } from '../../platform/daemon.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { peopleIn } from '../../platform/people.ts';
import { openSigningKey, type SigningKey } from '../../platform/signed-json.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { NewEvent } from '../../wire/events.ts';
import { makeNoticeCommand } from './adapters/notice-command.ts';
import { assertWebhookUrl, makeWebhook, noticeSigner } from './adapters/webhook.ts';
import { makeHandlers } from './api.ts';
import { type ApprovaldConfig, approvaldConfig } from './config.ts';
import { type Carry, type Delivery, makeDelivery } from './delivery.ts';
import { makeExpiry } from './expiry.ts';
import { makeMayDecide } from './may-decide.ts';
import { makeService } from './service.ts';
import { MIGRATIONS } from './store/rows.ts';
import { makeStore } from './store/store.ts';
import { makeTelling, type Telling } from './telling.ts';

const AUDIT_WAIT_MS = 2_000;
const RECONCILE_EVERY_MS = 60_000;

async function start(floor: Floor<ApprovaldConfig>): Promise<Running<typeof approvaldRoutes>> {
  const { clock, config, log, stateDir, newId, random, moment, metrics } = floor;
  const signing = openSigningKey(join(stateDir, 'approvald.key'));
  const carriers = carriersOf(config, signing);
  const audit = floor.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const db = openSqlite({ file: join(stateDir, 'approvald.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({ db, source: 'approvald', clock, append, log });
  let telling: Telling | undefined;
  let delivery: Delivery | undefined;
  let reconciling: Timer | undefined;
  let stopped = false;

  /** After every change: something may have ended, or be due sooner than before. */
  const onCommitted = (): void => {
    telling?.poke();
    delivery?.poke();
  };
  const store = makeStore({
    ...{ db, outbox, clock, newId, random, config, signing, onCommitted },
    targets: [...carriers.keys()],
  });
  const expiry = makeExpiry({ store, clock, log });
  const reconcile = (): void => {
    if (stopped) return;
    telling
      ?.reconcile()
      .catch((error: unknown) => log.debug('runs could not be looked at', { error }))
      .finally(() => {
        if (!stopped) reconciling = clock.at(clock.nowMs() + RECONCILE_EVERY_MS, reconcile);
      });
  };
  const agentd = floor.peer('agentd', agentdRoutes);
  telling = makeTelling({ store, agentd, clock, log });
  const attemptsMax = config.webhook_attempts_max;
  delivery = makeDelivery({ store, carriers, attemptsMax, clock, log });
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    ...{ log, clock },
    onRefused: auditRefusals({ daemon: 'approvald', db, outbox, newId, log }),
  });
  const mayDecide = makeMayDecide(policy);
  const people = peopleIn(join(stateDir, 'people'));
  const own = { store, outbox, config, mayDecide, people };
  const service = makeService({ ...own, expiry, metrics, moment });

  return {
    handlers: makeHandlers({ service, store, signing, clock }),
    async begin() {
      telling?.poke();
      delivery?.poke();
      expiry.begin();
      reconcile();
    },
    async stop() {
      stopped = true;
      policy.close();
      reconciling?.cancel();
      await expiry.stop();
      await telling?.stop();
      await delivery?.stop();
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
    },
  };
}

function carriersOf(config: ApprovaldConfig, signing: SigningKey): Map<string, Carry> {
  const carriers = new Map<string, Carry>();
  if (config.notice_command !== undefined) {
    const run = makeNoticeCommand({
      argv: config.notice_command,
      timeoutMs: config.notice_command_timeout_ms,
      path: '/usr/local/bin:/usr/bin:/bin',
    });
    carriers.set('command', ({ body }) => run(body));
  }
  for (const { url, secret_file } of config.webhooks) {
    assertWebhookUrl(url);
    const sign = noticeSigner(secret_file, signing);
    carriers.set(
      `webhook ${url}`,
      makeWebhook({ url, sign, timeoutMs: config.webhook_timeout_ms }),
    );
  }
  return carriers;
}

export const approvald = daemon({
  name: 'approvald',
  routes: approvaldRoutes,
  config: approvaldConfig,
  start,
});
