// Resolves a model name to routes. In order: a name from the configuration; `provider/model`; a
// name that a provider offers; the rehearsal's own names; an alias; the default; the rehearsal,
// while there is no real model.
import { fault } from '../../../wire/errors.ts';
import { DEFAULT, findAlias, isVendorName, type ModelAlias } from './model-aliases.ts';

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
export type ResolvedModel = ModelEntry & {
  /** For policy and the record: the asked name, or the one that it stands for. */
  name: string;
  asked: string;
  rehearsal: boolean;
};

/** The available models. Providers are in order of preference. */
export type ModelOffer = {
  models: ReadonlyMap<string, ModelEntry>;
  providers: readonly { name: string; models: readonly string[] }[];
  defaultModel: string | undefined;
  aliases: readonly ModelAlias[];
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

type NamedEntry = { name: string; entry: ModelEntry };

function listReal(offer: ModelOffer, kind: ModelKind): NamedEntry[] {
  const all = [...offer.models].map(([name, entry]) => ({ name, entry }));
  for (const provider of offer.providers)
    for (const name of provider.models)
      all.push({ name, entry: makeOfferedEntry(provider.name, name) });
  return all.filter(({ entry }) => entry.kind === kind);
}

function findDefault(offer: ModelOffer, kind: ModelKind): NamedEntry | undefined {
  if (offer.defaultModel !== undefined) {
    const entry = findNamed(offer, offer.defaultModel);
    if (entry?.kind === kind) return { name: offer.defaultModel, entry };
  }
  return listReal(offer, kind)[0];
}

export function hasRealModel(offer: ModelOffer): boolean {
  return offer.models.size > 0 || offer.providers.some((p) => p.models.length > 0);
}

function findRehearsal(offer: ModelOffer, kind: ModelKind): NamedEntry | undefined {
  if (!offer.hasRehearsal || hasRealModel(offer)) return undefined;
  const name = kind === 'chat' ? 'rehearsal-large' : 'rehearsal-embed';
  return { name, entry: REHEARSAL_MODELS.get(name)! };
}

/** Returns the model for names that no provider offers. */
function findFallback(offer: ModelOffer, kind: ModelKind): NamedEntry | undefined {
  return findDefault(offer, kind) ?? findRehearsal(offer, kind);
}

/** Without a choice of its own, a vendor's name stands for a model only if there is no other. */
function hasOneModel(offer: ModelOffer): boolean {
  if (offer.defaultModel !== undefined || !hasRealModel(offer)) return true;
  return new Set(listReal(offer, 'chat').map(({ name }) => name)).size === 1;
}

/**
 * Returns the alias's target for a name that is not offered. `own` is the model that a run was
 * started with: for the run, a vendor's names stand for it.
 */
function findTarget(
  offer: ModelOffer,
  asked: string,
  { kind, own }: { kind: ModelKind; own?: string | undefined },
): string | undefined {
  if (asked === DEFAULT || findNamed(offer, asked) !== undefined) return undefined;
  const alias = findAlias(offer.aliases, asked);
  if (alias !== undefined) return alias;
  // Embeddings of different models do not compare, so that only an alias can replace them.
  if (kind !== 'chat' || !isVendorName(asked)) return undefined;
  return own !== undefined || hasOneModel(offer) ? DEFAULT : undefined;
}

/** Returns the name that a name stands for: itself, if no alias applies. */
function readMeaning(
  offer: ModelOffer,
  asked: string,
  { kind, own }: { kind: ModelKind; own?: string | undefined },
): string {
  if (asked === own) return asked;
  const target = findTarget(offer, asked, { kind, own });
  if (target !== DEFAULT) return target ?? asked;
  return own ?? findFallback(offer, kind)?.name ?? DEFAULT;
}

/** Returns true for a name of its own: no alias, and not the default. */
export function isNamed(offer: ModelOffer, name: string): boolean {
  return findNamed(offer, name) !== undefined;
}

/** Returns true for a name that resolves without the fallback. */
export function isOffered(offer: ModelOffer, name: string): boolean {
  if (name === DEFAULT) return true;
  const meant = readMeaning(offer, name, { kind: 'chat' });
  return meant === DEFAULT || findNamed(offer, meant) !== undefined;
}

/** Returns the names that this one stands for: of the default model both. */
export function listMeanings(
  offer: ModelOffer,
  asked: string,
  { kind, own }: { kind: ModelKind; own?: string | undefined },
): string[] {
  const target = asked === DEFAULT ? DEFAULT : findTarget(offer, asked, { kind, own });
  if (target !== DEFAULT) return [target ?? asked];
  const name = findFallback(offer, kind)?.name;
  return [own, DEFAULT, name].filter((meant) => meant !== undefined);
}

export function resolveModel(
  offer: ModelOffer,
  asked: string,
  kind: ModelKind,
  own?: string,
): ResolvedModel {
  const name = readMeaning(offer, asked, { kind, own });
  // The model of a run may be an alias itself; policy knows it by the name in its manifest.
  const real = name === own ? readMeaning(offer, name, { kind }) : name;
  const named = findNamed(offer, real, kind);
  if (named !== undefined && named.kind !== kind) {
    const actual = kind === 'chat' ? 'an embedding model' : 'a chat model';
    throw fault('bad_request', `model ${real} is ${actual}`);
  }
  const entry = named ?? findFallback(offer, kind)?.entry;
  if (entry === undefined) {
    throw fault('not_found', `${kind} model ${asked} not found`, {
      hint: 'Add a provider that offers one: agentctl model add NAME.',
    });
  }
  return { ...entry, name, asked, rehearsal: entry.routes.every((r) => r.provider === REHEARSAL) };
}

export function listModels(
  offer: ModelOffer,
): (ModelEntry & { name: string; rehearsal: boolean; isDefault: boolean })[] {
  const chosen = findFallback(offer, 'chat')?.entry.routes[0];
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
