// auditd-ai as a value: the one file that knows all its parts.
import { join } from 'node:path';
import { defineDaemon } from '../../platform/daemon.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { makeApi } from './api.ts';
import { auditdConfig } from './config.ts';
import { openLog } from './log/log.ts';
import { makeService } from './service.ts';
import { openIndex } from './store/store.ts';

export const auditdAi = defineDaemon({
  name: 'auditd-ai',
  routes: auditRoutes,
  config: auditdConfig,
  async start(floor) {
    const { config, stateDir, clock } = floor;
    const log = await openLog({
      dir: join(stateDir, 'audit'),
      origin: config.origin,
      clock,
      segmentBytesMax: config.segment_bytes_max,
      checkpointEveryMs: config.checkpoint_every_ms,
      onFault: (error) => floor.log.error('the log has trouble', { error }),
    });
    if (log.cut !== undefined) floor.log.warn('a torn end was cut off the log', { ...log.cut });
    const index = await openIndex({
      file: join(stateDir, 'auditd-ai.sqlite'),
      log,
      say: floor.log,
    });
    const service = makeService({
      log,
      index,
      taken: await index.taken(),
      say: floor.log,
      failpoint: floor.failpoint,
    });
    floor.metrics.gauge('audit_events', () => log.size);
    return {
      handlers: makeApi(service),
      async stop() {
        await index.close();
        await log.close();
      },
    };
  },
});
