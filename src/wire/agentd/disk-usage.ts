// Disk usage: sizes by kind of data and by agent.
import * as z from 'zod';
import { route, routes } from '../route.ts';
import { RETENTION_KINDS } from './retention.ts';

/** `copies`: databases as they were before an upgrade, and those of a backup in progress. */
export const DiskKind = z.enum([...RETENTION_KINDS, 'audit', 'logs', 'copies']);

export const KindUsage = z.object({
  kind: DiskKind,
  bytes: z.int(),
  /** Largest first. Estimated by the number of tasks for `tasks`; people are `person:NAME`. */
  agents: z.array(z.object({ agent: z.string(), bytes: z.int() })),
  /** As configured; null: without limit. */
  age_s: z.number().nullable(),
  size_max_bytes: z.int().nullable(),
});
export type KindUsage = z.infer<typeof KindUsage>;

export const DiskUsageView = z.object({
  kinds: z.array(KindUsage),
  databases: z.array(z.object({ name: z.string(), bytes: z.int(), used_bytes: z.int() })),
  disk: z.object({ size_bytes: z.int(), free_bytes: z.int() }),
});
export type DiskUsageView = z.infer<typeof DiskUsageView>;

export const diskUsageRoutes = routes({
  getDiskUsage: route({
    method: 'GET',
    path: '/v1/disk-usage',
    callers: ['operator'],
    output: z.object({ usage: DiskUsageView }),
  }),
});
