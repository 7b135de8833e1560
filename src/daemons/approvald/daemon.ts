// Assembles approvald from its parts.
import { join } from 'node:path';
import { makeEraseRecords } from '../../platform/copies/erase-records.ts';
import { makeSeal } from '../../platform/copies/seal.ts';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { openPersonKeys } from '../../platform/person-keys.ts';
import { openSigningKey, type SigningKey } from '../../platform/signed-json.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { NewEvent } from '../../wire/events.ts';
import { maildRoutes } from '../../wire/maild.ts';
import { memorydRoutes } from '../../wire/memoryd.ts';
import { MAIL_TARGET, makeMailNotices } from './adapters/mail-notices.ts';
import { makeNoticeCommand } from './adapters/notice-command.ts';
import { assertWebhookUrl, makeNoticeSigner, makeWebhook } from './adapters/webhook.ts';
import { makeHandlers } from './api.ts';
import { type ApprovaldConfig, approvaldConfig } from './config.ts';
import { makeDelivery, type SendNotice } from './delivery.ts';
import { makeMayDecide } from './may-decide.ts';
import { makeMayRead } from './may-read.ts';
import { makeProposals } from './proposals.ts';
import { makeReplies } from './replies.ts';
import { makeService } from './service.ts';
import { COPY_PLACES } from './store/copy-places.ts';
import { ID_COLUMNS, MIGRATIONS } from './store/rows.ts';
import { makeStore } from './store/store.ts';
import { makeWaitNotifier } from './wait-notifier.ts';

const AUDIT_WAIT_MS = 2_000;
const EXPIRY_BACKOFF_MS = { min: 1_000, max: 5_000 };
const RECONCILE_INTERVAL_MS = 60_000;

async function start(
  context: DaemonContext<ApprovaldConfig>,
): Promise<DaemonHandle<typeof approvaldRoutes>> {
  const { clock, config, log, stateDir, newId, random, failpoint, metrics } = context;
  const signing = openSigningKey(join(stateDir, 'approvald.key'));
  const maild = context.peer('maild', maildRoutes);
  const agentd = context.peer('agentd', agentdRoutes);
  const sendMail: SendNotice = (notice) => mailNotices(notice);
  const channels = openChannels(config, signing).set(MAIL_TARGET, sendMail);
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const db = openSqlite({ file: join(stateDir, 'approvald.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({ db, source: 'approvald', clock, append, log });

  const onCommitted = (): void => {
    notifier.wake();
    delivery.wake();
  };
  const store = makeStore({
    db,
    outbox,
    clock,
    newId,
    random,
    config,
    signing,
    onCommitted,
    targets: [...channels.keys()],
    replyTarget: MAIL_TARGET,
  });
  const memoryd = context.peer('memoryd', memorydRoutes);
  const notifier = makeWaitNotifier({ store, agentd, memoryd, clock, log });
  const attemptsMax = config.webhook_attempts_max;
  const delivery = makeDelivery({
    store,
    channels,
    attemptsMax,
    ownTarget: MAIL_TARGET,
    clock,
    log,
  });
  const expiry = makeWakeLoop({
    clock,
    work: store.expireDue,
    backoffMs: EXPIRY_BACKOFF_MS,
    onError: (error) => log.warn('expiring approvals failed; retrying', { error }),
  });
  const reconciliation = makeWakeLoop({
    clock,
    async work() {
      await notifier.reconcile();
      await proposals.reconcile();
      return clock.nowMs() + RECONCILE_INTERVAL_MS;
    },
    backoffMs: { min: RECONCILE_INTERVAL_MS, max: RECONCILE_INTERVAL_MS },
    onError: (error) => log.debug('looking for ended runs failed', { error }),
  });
  const loops = [expiry, notifier, delivery, reconciliation];
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    log,
    clock,
    onRefused: auditRefusals({ daemon: 'approvald', db, outbox, newId, log }),
  });
  const mayDecide = makeMayDecide(policy);
  const people = openPersonKeys(join(stateDir, 'people'));
  const proposals = makeProposals({ store, memoryd, mayRead: makeMayRead(policy) });
  const own = { store, outbox, config, mayDecide, proposals, people };
  const service = makeService({ ...own, expiry, metrics, failpoint });
  const replies = makeReplies({ ...own, service, clock });
  const mailNotices = makeMailNotices({
    maild,
    agentd,
    offerReply: config.approve_by_reply.length === 0 ? undefined : replies.offer,
  });

  const prune: typeof store.pruneTree = async (rootTaskId) => {
    failpoint('approvald.before-prune');
    const answer = await store.pruneTree(rootTaskId);
    failpoint('approvald.after-prune');
    return answer;
  };

  const eraseRecords = makeEraseRecords({ db, places: COPY_PLACES, seal: makeSeal({ db, log }) });
  const eraseCopies: typeof eraseRecords = async (order) => {
    failpoint('approvald.before-erase-copies');
    const erased = await eraseRecords(order);
    failpoint('approvald.after-erase-copies');
    return erased;
  };

  return {
    handlers: makeHandlers({
      service,
      store,
      signing,
      clock,
      prune,
      eraseCopies,
      decideByReply: replies.decide,
      ...proposals,
    }),
    database: db,
    ids: { db, columns: ID_COLUMNS, isFindable: proposals.isFindable },
    async begin() {
      for (const loop of loops) loop.wake();
    },
    async stop() {
      policy.close();
      await Promise.all(loops.map((loop) => loop.stop()));
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
    },
  };
}

function openChannels(config: ApprovaldConfig, signing: SigningKey): Map<string, SendNotice> {
  const channels = new Map<string, SendNotice>();
  if (config.notice_command !== undefined) {
    const run = makeNoticeCommand({
      argv: config.notice_command,
      timeoutMs: config.notice_command_timeout_ms,
      path: '/usr/local/bin:/usr/bin:/bin',
    });
    channels.set('command', ({ body }) => run(body));
  }
  for (const { url, secret_file } of config.webhooks) {
    assertWebhookUrl(url);
    const sign = makeNoticeSigner(secret_file, signing);
    channels.set(
      `webhook ${url}`,
      makeWebhook({ url, sign, timeoutMs: config.webhook_timeout_ms }),
    );
  }
  return channels;
}

export const approvald = defineDaemon({
  name: 'approvald',
  routes: approvaldRoutes,
  config: approvaldConfig,
  start,
});
