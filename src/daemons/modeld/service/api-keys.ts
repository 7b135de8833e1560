// Creates, verifies, lists and ends API keys. All are in memory, so that verifying one reads
// nothing. A new secret works once it is durable; an end takes effect before it is.
import {
  isSameHash,
  makeApiKey,
  readApiKey,
  type SentApiKey,
  writeKeyPrefix,
} from '../../../platform/api-key.ts';
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import { findNearest } from '../../../platform/did-you-mean.ts';
import type { NewId, Random } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { KeyCaller } from '../../../wire/caller.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { BudgetView, CreateKeyBody, KeyView } from '../../../wire/modeld.ts';
import type { Budgets, Limit } from '../budgets.ts';
import {
  findKeyEnd,
  isModelAllowed,
  type KeyEnd,
  keyEndFault,
  modelNotAllowedFault,
  readKeyStatus,
} from '../rules/api-key.ts';
import { toDay } from '../rules/budget.ts';
import type { ModelKind, ResolvedModel } from '../rules/models.ts';
import { RequestRate } from '../rules/request-rate.ts';
import {
  endSecret,
  markRevoked,
  readKeys,
  readSecrets,
  type StoredKey,
  type StoredSecret,
  writeKey,
  writeSecret,
} from '../store/api-keys.ts';
import { writeLimit } from '../store/settings.ts';

/** The key and secret that a call was made with. */
export type KeyUse = Pick<KeyCaller, 'name' | 'secretId'>;

export type ApiKeysDeps = {
  db: Database;
  outbox: Outbox;
  budgets: Budgets;
  clock: Clock;
  random: Random;
  newId: NewId;
  isOffered(model: string): boolean;
  /** The names by which a list of models may allow this one. */
  listMeanings(model: string, kind: ModelKind): string[];
  /** Aborts the calls in flight that these secrets opened. */
  cutCalls(secretIds: ReadonlySet<string>, reason: Fault): void;
  recordRefusal(makeEvent: (id: string) => EventDraft): void;
};

const KEYS_MAX = 10_000;
/** A client that repeats a refused request must not fill the log. */
const REFUSAL_INTERVAL_MS = 60_000;

export class ApiKeys {
  readonly #deps: ApiKeysDeps;
  readonly #keys = new Map<string, StoredKey>();
  readonly #secrets = new Map<string, StoredSecret>();
  /** Keys that are revoked in memory, and not on the disk. */
  readonly #unwritten = new Set<string>();
  readonly #rate = new RequestRate();
  /** Secret and reason → when a refusal was last recorded. */
  readonly #refusals = new Map<string, number>();

  static async open(parts: ApiKeysDeps): Promise<ApiKeys> {
    const keys = new ApiKeys(parts);
    await parts.db.read(async (sql) => {
      for (const key of await readKeys(sql)) keys.#keys.set(key.name, key);
      for (const secret of await readSecrets(sql)) keys.#secrets.set(secret.id, secret);
    });
    return keys;
  }

  private constructor(parts: ApiKeysDeps) {
    this.#deps = parts;
  }

  /** Throws a fault that says why the key does not work. */
  verify(text: string): KeyCaller {
    const sent = readApiKey(text);
    const { key, secret } = this.#find(sent);
    const end = findKeyEnd(key, secret, this.#deps.clock.nowMs());
    if (end !== undefined) {
      this.#recordRefusal(key, secret, end);
      throw keyEndFault(key, secret, end);
    }
    this.#countRequest(key);
    const { name, owner, scopes } = key;
    return { kind: 'key', principal: `key:${name}`, name, secretId: secret.id, owner, scopes };
  }

  #countRequest({ name, requestsPerMin }: StoredKey): void {
    if (requestsPerMin === null) return;
    const waitMs = this.#rate.admit(name, requestsPerMin, this.#deps.clock.nowMs());
    if (waitMs === 0) return;
    throw fault('rate_limited', `key ${name} may make ${requestsPerMin} requests per minute`, {
      retryAfterMs: waitMs,
      details: { reason: 'key_rate', key: name },
    });
  }

  #find(sent: SentApiKey): { key: StoredKey; secret: StoredSecret } {
    const secret = this.#secrets.get(sent.id);
    const key = secret && this.#keys.get(secret.keyName);
    if (key === undefined || secret === undefined || !isSameHash(secret.hash, sent.hash))
      throw fault('unauthenticated', 'this API key is not known here', {
        hint: 'Check that it was made in this state directory: agentctl key list.',
        details: { reason: 'unknown' },
      });
    return { key, secret };
  }

  /** Called before each model call: the key may have ended since the request was authenticated. */
  admit({ name, secretId }: KeyUse, model: Pick<ResolvedModel, 'asked' | 'kind'>): void {
    const key = this.#get(name);
    const secret = this.#secrets.get(secretId)!;
    const end = findKeyEnd(key, secret, this.#deps.clock.nowMs());
    if (end !== undefined) throw keyEndFault(key, secret, end);
    const { asked, kind } = model;
    if (!this.mayUse(name, asked, kind)) throw modelNotAllowedFault(name, asked, key.models ?? []);
  }

  /**
   * A limited key may not use a name that nobody offers: it falls back to another model. Of an
   * alias, the model that it stands for must be allowed.
   */
  mayUse(name: string, model: string, kind: ModelKind = 'chat'): boolean {
    const { models } = this.#get(name);
    if (models === null) return true;
    const { isOffered, listMeanings } = this.#deps;
    const isAllowed = listMeanings(model, kind).some((meant) => isModelAllowed(models, meant));
    return isAllowed && isOffered(model);
  }

  list(): KeyView[] {
    return [...this.#keys.values()].map((key) => this.#view(key));
  }

  get(name: string): KeyView {
    return this.#view(this.#get(name));
  }

  async create(by: string, ask: CreateKeyBody): Promise<KeyView & { secret: string }> {
    const { clock, db, outbox, newId, random } = this.#deps;
    const createdMs = clock.nowMs();
    const key: StoredKey = {
      name: ask.name,
      scopes: ['models'],
      owner: ask.owner ?? null,
      models: ask.models ?? null,
      requestsPerMin: ask.requests_per_min ?? null,
      createdBy: by,
      createdMs,
      expiresMs: ask.expires_at === undefined ? null : Date.parse(ask.expires_at),
      revokedMs: null,
    };
    if (key.expiresMs !== null && key.expiresMs <= createdMs)
      throw fault('bad_request', `expires_at: ${ask.expires_at} is in the past`);
    this.#assertFree(key.name);
    const { text, secret } = makeSecret(key.name, createdMs, random);
    const limit = makeBudget(key.name, ask.budget);
    // Reserved before the write, so that a second creation meanwhile is refused.
    this.#keys.set(key.name, key);
    try {
      await db.write(async (sql) => {
        await writeKey(sql, key);
        await writeSecret(sql, secret);
        if (limit !== undefined) await writeLimit(sql, limit);
        await outbox.add(sql, {
          id: newId('key'),
          event: 'key.created',
          principal: by,
          data: {
            key: key.name,
            secret: writeKeyPrefix(secret.id),
            scopes: key.scopes.join(','),
            owner: key.owner,
            models: key.models?.join(',').slice(0, 1024) ?? null,
            requests_per_min: key.requestsPerMin,
            expires_at: ask.expires_at ?? null,
            cost_limit_microusd: limit?.costLimitMicrousd ?? null,
            period: limit?.period ?? null,
          },
        });
      });
    } catch (error) {
      this.#keys.delete(key.name);
      throw error;
    }
    // Before the secret works, so that no call escapes the budget.
    if (limit !== undefined) this.#deps.budgets.setLimit(limit);
    this.#secrets.set(secret.id, secret);
    outbox.wake();
    return { ...this.#view(key), secret: text };
  }

  /** The new secret works at once; the others end after this time. */
  async rotate(by: string, name: string, overlapMs: number): Promise<KeyView & { secret: string }> {
    const { clock, db, outbox, newId, random } = this.#deps;
    const key = this.#get(name);
    const nowMs = clock.nowMs();
    const status = readKeyStatus(key, nowMs);
    if (status !== 'active')
      throw fault('conflict', `key ${name} is ${status}`, {
        hint: 'Create another: agentctl key create NAME.',
      });
    const { text, secret } = makeSecret(name, nowMs, random);
    const endsMs = nowMs + overlapMs;
    const old = this.#secretsOf(name).filter((one) => one.endsMs === null || one.endsMs > endsMs);
    await db.write(async (sql) => {
      await writeSecret(sql, secret);
      for (const { id } of old) await endSecret(sql, id, endsMs);
      await outbox.add(sql, {
        id: newId('key'),
        event: 'key.rotated',
        principal: by,
        data: {
          key: name,
          secret: writeKeyPrefix(secret.id),
          others_end_at: toTimestamp(endsMs),
        },
      });
    });
    this.#secrets.set(secret.id, secret);
    for (const one of old) one.endsMs = endsMs;
    if (overlapMs === 0)
      this.#cut(
        old.map(({ id }) => id),
        fault('canceled', `this secret of key ${name} was replaced`),
      );
    outbox.wake();
    return { ...this.#view(key), secret: text };
  }

  #assertFree(name: string): void {
    const found = this.#keys.get(name);
    if (found !== undefined) {
      const status = readKeyStatus(found, this.#deps.clock.nowMs());
      throw fault('conflict', `key ${name} exists and is ${status}`, {
        hint: `Choose another name, or make a new secret: agentctl key rotate ${name}.`,
      });
    }
    if (this.#keys.size >= KEYS_MAX)
      throw fault('limit', `there are ${KEYS_MAX} keys, the most there may be`);
  }

  /** Takes effect, and cuts its streams, before it is durable. */
  async revoke(by: string, name: string): Promise<KeyView> {
    const { clock, db, outbox, newId } = this.#deps;
    const key = this.#get(name);
    if (key.revokedMs !== null && !this.#unwritten.has(name)) return this.#view(key);
    key.revokedMs ??= clock.nowMs();
    const { revokedMs } = key;
    this.#unwritten.add(name);
    this.#cut(
      this.#secretsOf(name).map(({ id }) => id),
      fault('canceled', `key ${name} was revoked`),
    );
    await db.write(async (sql) => {
      await markRevoked(sql, name, revokedMs);
      await outbox.add(sql, {
        id: newId('key'),
        event: 'key.revoked',
        principal: by,
        data: { key: name },
      });
    });
    this.#unwritten.delete(name);
    outbox.wake();
    return this.#view(key);
  }

  #cut(secretIds: readonly string[], reason: Fault): void {
    this.#deps.cutCalls(new Set(secretIds), reason);
  }

  #get(name: string): StoredKey {
    const key = this.#keys.get(name);
    if (key !== undefined) return key;
    const near = findNearest(name, [...this.#keys.keys()]);
    throw fault('not_found', `key ${name} not found`, {
      hint: near === undefined ? 'List the keys: agentctl key list.' : `Did you mean ${near}?`,
    });
  }

  #secretsOf(name: string): StoredSecret[] {
    return [...this.#secrets.values()].filter(({ keyName }) => keyName === name);
  }

  #recordRefusal(key: StoredKey, { id }: StoredSecret, end: KeyEnd): void {
    const nowMs = this.#deps.clock.nowMs();
    const at = `${id} ${end}`;
    const lastMs = this.#refusals.get(at);
    if (lastMs !== undefined && nowMs - lastMs < REFUSAL_INTERVAL_MS) return;
    this.#refusals.set(at, nowMs);
    this.#deps.recordRefusal((eventId) => ({
      id: eventId,
      event: 'key.refused',
      principal: `key:${key.name}`,
      allowed: false,
      status: end,
      data: { key: key.name, secret: writeKeyPrefix(id) },
    }));
  }

  #viewBudget(name: string, nowMs: number): BudgetView | null {
    const { budgets } = this.#deps;
    const [key] = budgets.listPayerKeys([{ subject: 'key', name }], toDay(nowMs));
    return key === undefined ? null : budgets.view(key);
  }

  #view(key: StoredKey): KeyView {
    const nowMs = this.#deps.clock.nowMs();
    const timestamp = (ms: number | null) => (ms === null ? null : toTimestamp(ms));
    const working = this.#secretsOf(key.name).filter(
      (secret) => findKeyEnd(key, secret, nowMs) === undefined,
    );
    return {
      name: key.name,
      status: readKeyStatus(key, nowMs),
      scopes: key.scopes,
      owner: key.owner,
      models: key.models,
      requests_per_min: key.requestsPerMin,
      budget: this.#viewBudget(key.name, nowMs),
      secrets: working.map(({ id, createdMs, endsMs }) => ({
        prefix: writeKeyPrefix(id),
        created_at: toTimestamp(createdMs),
        ends_at: timestamp(endsMs),
      })),
      created_by: key.createdBy,
      created_at: toTimestamp(key.createdMs),
      expires_at: timestamp(key.expiresMs),
      revoked_at: timestamp(key.revokedMs),
    };
  }
}

function makeSecret(keyName: string, createdMs: number, random: Random) {
  const { text, id, hash } = makeApiKey(random);
  const secret: StoredSecret = { id, keyName, hash, createdMs, endsMs: null };
  return { text, secret };
}

function makeBudget(name: string, ask: CreateKeyBody['budget']): Limit | undefined {
  if (ask === undefined) return undefined;
  const { cost_limit_microusd: costLimitMicrousd, period } = ask;
  return { subject: 'key', name, tokensLimit: null, costLimitMicrousd, setBy: 'operator', period };
}
