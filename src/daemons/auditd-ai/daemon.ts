// Defines auditd-ai: opens the log and its index and connects them to the routes.
import { join } from 'node:path';
import { defineDaemon } from '../../platform/daemon.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { makeApi } from './api.ts';
import { startArchiveSchedule } from './archive-schedule.ts';
import { makeArchiving } from './archiving.ts';
import { auditdConfig } from './config.ts';
import { makeListForgotten } from './forgotten.ts';
import { openLog } from './log/log.ts';
import { makeService } from './service.ts';
import { openIndex } from './store/store.ts';

const HOUR_MS = 3_600_000;

export const auditdAi = defineDaemon({
  name: 'auditd-ai',
  routes: auditRoutes,
  config: auditdConfig,
  async start(context) {
    const { config, stateDir, clock } = context;
    const log = await openLog({
      dir: join(stateDir, 'audit'),
      origin: config.origin,
      clock,
      segmentBytesMax: config.segment_bytes_max,
      segmentAgeMaxMs: config.segment_hours_max * HOUR_MS,
      checkpointEveryMs: config.checkpoint_every_ms,
      onFault: (error) => context.log.error('writing the audit log failed', { error }),
    });
    if (log.cut !== undefined)
      context.log.warn('moved a torn tail of the log to recovered/', { ...log.cut });
    const index = await openIndex({
      file: join(stateDir, 'auditd-ai.sqlite'),
      log,
      logger: context.log,
    });
    const service = makeService({
      log,
      index,
      highWaterMarks: await index.readHighWaterMarks(),
      clock,
      logger: context.log,
      failpoint: context.failpoint,
    });
    const archiving = makeArchiving({
      log,
      index,
      clock,
      logger: context.log,
      failpoint: context.failpoint,
      appendOwn: service.appendOwn,
    });
    await archiving.resume();
    const schedule = startArchiveSchedule({
      log,
      logDir: join(stateDir, 'audit'),
      archiving,
      rule: context.retention.audit,
      clock,
      logger: context.log,
    });
    context.metrics.gauge('audit_events', () => log.size);
    context.metrics.gauge('audit_events_archived', () => log.firstSeq);
    return {
      handlers: makeApi(service, archiving, schedule, makeListForgotten({ log, index })),
      database: index.database,
      async stop() {
        await schedule.stop();
        service.releaseAll();
        await index.close();
        await log.close();
      },
    };
  },
});
