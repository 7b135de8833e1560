// The section `modeld` of agentd.yaml: providers, the names that map to them, prices and budgets.
// Keys are never here: a provider names the file or the credential that holds its key.
import * as z from 'zod';
import { AliasPattern, DialectName } from '../../wire/modeld.ts';
import { Label } from '../../wire/primitives.ts';

export const LABELS = Label.options;
/** The labels a provider may see by default. */
const LABELS_ALLOWED_DEFAULT = LABELS.filter((l) => l !== 'secret' && l !== 'personal');

const name = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be a lowercase name such as anthropic')
  .refine((value) => value !== 'rehearsal', 'rehearsal is a reserved name');
const modelName = z.string().min(1).max(128);
const baseUrl = z
  .string()
  .max(500)
  .regex(/^(https?:\/\/[^\s]+|unix:\/[^\s]+)$/, 'must start with http://, https:// or unix:/');
const timeoutMs = (fallback: number) => z.int().min(10).max(3_600_000).default(fallback);

const Timeouts = z.strictObject({
  connect_ms: timeoutMs(10_000),
  first_byte_ms: timeoutMs(120_000),
  /** The longest silence inside a response. */
  idle_ms: timeoutMs(60_000),
  total_ms: timeoutMs(600_000),
});

export const ProviderConfig = z
  .strictObject({
    dialect: DialectName,
    base_url: baseUrl,
    /** A file with the key: mode 0600 and owned by the user modeld runs as, else refused. */
    key_file: z.string().max(4_096).optional(),
    /** The name of a file in the credentials directory. */
    key_credential: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'must be a plain file name')
      .optional(),
    labels_allowed: z.array(Label).max(16).default(LABELS_ALLOWED_DEFAULT),
    /** Names of its models that callers can use directly. */
    models: z.array(modelName).max(64).default([]),
    concurrency: z.int().min(1).max(4_096).default(64),
    requests_per_min: z.int().min(1).max(10_000_000).optional(),
    tokens_per_min: z.int().min(1).max(1_000_000_000_000).optional(),
    /** Older servers that speak OpenAI's dialect know only `max_tokens`. */
    max_tokens_field: z.enum(['max_completion_tokens', 'max_tokens']).optional(),
    timeouts: Timeouts.prefault({}),
  })
  .refine((p) => p.key_file === undefined || p.key_credential === undefined, {
    message: 'name either key_file or key_credential, not both',
  });
export type ProviderConfig = z.output<typeof ProviderConfig>;

const Route = z.strictObject({ provider: z.string().min(1).max(32), model: modelName });
export const ModelConfig = z.strictObject({
  /** Tried in this order. */
  routes: z.array(Route).min(1).max(8),
  kind: z.enum(['chat', 'embedding']).default('chat'),
  context_tokens: z.int().min(1).max(100_000_000).default(128_000),
  max_output_tokens: z.int().min(1).max(10_000_000).default(8_192),
});
export type ModelConfig = z.output<typeof ModelConfig>;

const usdPerMillion = z.number().nonnegative().max(1_000_000);
/** USD per million tokens, as in the vendors' price lists. */
const Price = z.strictObject({
  input: usdPerMillion,
  output: usdPerMillion,
  cache_read: usdPerMillion.optional(),
  cache_write: usdPerMillion.optional(),
});

const Limit = z.strictObject({
  tokens: z.int().nonnegative().optional(),
  cost_usd: z.number().nonnegative().max(1_000_000_000).optional(),
});
export type LimitConfig = z.output<typeof Limit>;

export const modeldConfig = z.strictObject({
  providers: z.record(name, ProviderConfig).default({}),
  models: z.record(modelName, ModelConfig).default({}),
  /** Names of clients, with * for any characters → the model they stand for. */
  aliases: z.record(AliasPattern, modelName).default({}),
  /** The fallback for unknown names; without it, the first available model. */
  default_model: modelName.optional(),
  /** Upstream model → price, over the built-in list. */
  prices: z.record(modelName, Price).default({}),
  budgets: z
    .strictObject({
      /** In total, over all callers. */
      site: Limit.prefault({}),
      /** Per day (UTC), over all callers. */
      day: Limit.prefault({}),
      /** Per agent and day, unless the manifest or an operator sets a limit. */
      agents: z.strictObject({ default: Limit.prefault({}) }).prefault({}),
    })
    .prefault({}),
  /** The rehearsal's address, used while no real model is configured. Set by the entry. */
  rehearsal: z.strictObject({ address: baseUrl }).optional(),
  /** A directory of screenplays that the rehearsal plays before its own. */
  screenplays_dir: z.string().min(1).max(4_096).optional(),
  /** Where the service manager put credentials. Set by the entry. */
  credentials_dir: z.string().max(4_096).optional(),
});
export type ModeldConfig = z.output<typeof modeldConfig>;
