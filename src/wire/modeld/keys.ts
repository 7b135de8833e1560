// API keys: what operators see of them, and the routes that create, list and end them. A secret
// crosses the wire once, in the response that creates it.
import * as z from 'zod';
import { Timestamp } from '../primitives.ts';
import { route } from '../route.ts';
import { BudgetPeriod, BudgetView, ModelPattern } from './views.ts';

export const KeyName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,63}$/,
    'must be 1 to 64 lowercase letters, digits and . _ -, starting with a letter or digit',
  );
export const PersonName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/);
export const KeyView = z.object({
  name: z.string(),
  status: z.enum(['active', 'expired', 'revoked']),
  scopes: z.array(z.enum(['models'])),
  owner: z.string().nullable(),
  /** Null: every model. */
  models: z.array(z.string()).nullable(),
  requests_per_min: z.int().nullable(),
  budget: BudgetView.nullable(),
  /** The secrets that work, by the first characters of each. */
  secrets: z.array(
    z.object({ prefix: z.string(), created_at: Timestamp, ends_at: Timestamp.nullable() }),
  ),
  created_by: z.string(),
  created_at: Timestamp,
  expires_at: Timestamp.nullable(),
  revoked_at: Timestamp.nullable(),
});
export type KeyView = z.infer<typeof KeyView>;

const NewKeyView = KeyView.extend({
  /** Shown once: only its hash is stored. */
  secret: z.string(),
});

const params = z.strictObject({ name: KeyName });

export const CreateKeyBody = z.strictObject({
  name: KeyName,
  owner: PersonName.optional(),
  models: z.array(ModelPattern).min(1).max(64).optional(),
  requests_per_min: z.int().min(1).max(10_000).optional(),
  expires_at: Timestamp.optional(),
  budget: z
    .strictObject({ cost_limit_microusd: z.int().nonnegative(), period: BudgetPeriod })
    .optional(),
});
export type CreateKeyBody = z.infer<typeof CreateKeyBody>;

export const keyRoutes = {
  createKey: route({
    method: 'POST',
    path: '/v1/keys',
    callers: ['operator'],
    body: CreateKeyBody,
    output: z.object({ key: NewKeyView }),
  }),
  listKeys: route({
    method: 'GET',
    path: '/v1/keys',
    callers: ['operator'],
    output: z.object({ keys: z.array(KeyView) }),
  }),
  getKey: route({
    method: 'GET',
    path: '/v1/keys/{name}',
    callers: ['operator'],
    params,
    output: z.object({ key: KeyView }),
  }),
  /** Makes a new secret; the others end after this time. */
  rotateKey: route({
    method: 'POST',
    path: '/v1/keys/{name}/rotate',
    callers: ['operator'],
    params,
    body: z.strictObject({ overlap_s: z.int().min(0).max(2_592_000).default(0) }),
    output: z.object({ key: NewKeyView }),
  }),
  /** Ends all its secrets and cuts the streams that they opened. */
  revokeKey: route({
    method: 'POST',
    path: '/v1/keys/{name}/revoke',
    callers: ['operator'],
    params,
    output: z.object({ key: KeyView }),
  }),
};
