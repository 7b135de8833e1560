// Resolves a model name to routes. In order: a name from the configuration; `provider/model`; a
// name that a provider offers; the rehearsal's own names; the default; the rehearsal, while there
// is no real model.
import { fault } from '../../../wire/errors.ts';

export type ModelKind = 'chat' | 'embedding';
export type ModelRoute = { provider: string; model: string };
export type ModelEntry = {
  routes: readonly ModelRoute[];
  kind: ModelKind;
  contextTokens: number;
  maxOutputTokens: number;
  /** The two numbers are configured; otherwise they are a guess and must not limit calls. */
  isExact: boolean;
};
export type ResolvedModel = ModelEntry & { name: string; rehearsal: boolean };

/** The available models. Providers are in order of preference. */
export type ModelOffer = {
  models: ReadonlyMap<string, ModelEntry>;
  providers: readonly { name: string; models: readonly string[] }[];
  defaultModel: string | undefined;
  hasRehearsal: boolean;
};

export const REHEARSAL = 'rehearsal';
const REHEARSAL_MODELS: ReadonlyMap<string, ModelEntry> = new Map(
  Object.entries<ModelEntry>({
    'rehearsal-large': {
      routes: [{ provider: REHEARSAL, model: 'rehearsal-large' }],
      kind: 'chat',
      contextTokens: 200_000,
      maxOutputTokens: 64_000,
      isExact: true,
    },
    'rehearsal-small': {
      routes: [{ provider: REHEARSAL, model: 'rehearsal-small' }],
      kind: 'chat',
      contextTokens: 32_000,
      maxOutputTokens: 8_192,
      isExact: true,
    },
    'rehearsal-embed': {
      routes: [{ provider: REHEARSAL, model: 'rehearsal-embed' }],
      kind: 'embedding',
      contextTokens: 8_192,
      maxOutputTokens: 1,
      isExact: true,
    },
  }),
);
/** For models known by name only. */
const OFFERED = { contextTokens: 128_000, maxOutputTokens: 8_192, isExact: false };

export function guessKind(model: string): ModelKind {
  return /embed/i.test(model) ? 'embedding' : 'chat';
}

function makeOfferedEntry(provider: string, model: string, kind = guessKind(model)): ModelEntry {
  return { ...OFFERED, kind, routes: [{ provider, model }] };
}

function findNamed(offer: ModelOffer, name: string, kind?: ModelKind): ModelEntry | undefined {
  const configured = offer.models.get(name);
  if (configured !== undefined) return configured;
  const slash = name.indexOf('/');
  if (slash > 0) {
    const provider = offer.providers.find((p) => p.name === name.slice(0, slash));
    if (provider !== undefined && slash < name.length - 1)
      return makeOfferedEntry(provider.name, name.slice(slash + 1), kind);
  }
  const provider = offer.providers.find((p) => p.models.includes(name));
  if (provider !== undefined) return makeOfferedEntry(provider.name, name);
  return offer.hasRehearsal ? REHEARSAL_MODELS.get(name) : undefined;
}

function findDefault(offer: ModelOffer, kind: ModelKind): ModelEntry | undefined {
  if (offer.defaultModel !== undefined) {
    const named = findNamed(offer, offer.defaultModel);
    if (named?.kind === kind) return named;
  }
  for (const entry of offer.models.values()) if (entry.kind === kind) return entry;
  for (const provider of offer.providers)
    for (const model of provider.models)
      if (guessKind(model) === kind) return makeOfferedEntry(provider.name, model);
  return undefined;
}

export function hasRealModel(offer: ModelOffer): boolean {
  return offer.models.size > 0 || offer.providers.some((p) => p.models.length > 0);
}

function findRehearsal(offer: ModelOffer, kind: ModelKind): ModelEntry | undefined {
  if (!offer.hasRehearsal || hasRealModel(offer)) return undefined;
  return REHEARSAL_MODELS.get(kind === 'chat' ? 'rehearsal-large' : 'rehearsal-embed');
}

/** The name that stands for the default model. */
export const DEFAULT = 'default';

/** Returns the model for names that no provider offers. */
function findFallback(offer: ModelOffer, kind: ModelKind): ModelEntry | undefined {
  return findDefault(offer, kind) ?? findRehearsal(offer, kind);
}

/** Returns true for a name that resolves without the fallback. */
export function isOffered(offer: ModelOffer, name: string): boolean {
  return name === DEFAULT || findNamed(offer, name) !== undefined;
}

export function resolveModel(offer: ModelOffer, name: string, kind: ModelKind): ResolvedModel {
  const named = findNamed(offer, name, kind);
  if (named !== undefined && named.kind !== kind) {
    const actual = kind === 'chat' ? 'an embedding model' : 'a chat model';
    throw fault('bad_request', `model ${name} is ${actual}`);
  }
  const entry = named ?? findFallback(offer, kind);
  if (entry === undefined) {
    throw fault('not_found', `${kind} model ${name} not found`, {
      hint: 'Add a provider that offers one: agentctl model add NAME.',
    });
  }
  return { ...entry, name, rehearsal: entry.routes.every((r) => r.provider === REHEARSAL) };
}

export function listModels(offer: ModelOffer): (ResolvedModel & { isDefault: boolean })[] {
  const chosen = findFallback(offer, 'chat')?.routes[0];
  const names = new Set<string>(offer.models.keys());
  for (const provider of offer.providers) for (const model of provider.models) names.add(model);
  if (offer.hasRehearsal) for (const name of REHEARSAL_MODELS.keys()) names.add(name);
  return [...names].map((name) => {
    const entry = findNamed(offer, name)!;
    const first = entry.routes[0]!;
    return {
      ...entry,
      name,
      rehearsal: entry.routes.every((r) => r.provider === REHEARSAL),
      isDefault: first.provider === chosen?.provider && first.model === chosen.model,
    };
  });
}
