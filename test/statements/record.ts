/** Records the texts of statements: calls each exported function with arguments of its parameter types, without a database. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SignatureKind, type Type } from 'typescript/unstable/sync';
import { createTag, type Command, type Queryable, type Rows } from '#db/statement.ts';
import { ROOT, type Site, type Source } from './program.ts';
import { makersOf, type Choose, type Make } from './values.ts';

/** Calls of each function: with the most content, with the least, and with mixtures that are the same in each run. */
const VARIANTS = 16;
/** A statement that a call repeats returns no more rows, so that loops end. */
const MAX_ROWS = 2;
const MAX_STATEMENTS = 200;
/** Functions that are called because another one returned them. */
const MAX_DEPTH = 3;

/** The texts of each statement. */
export type Texts = ReadonlyMap<Site, ReadonlySet<string>>;

/** Returns the choices of one call. */
function chooseIn(variant: number): Choose {
  if (variant === 0) return () => 0;
  if (variant === 1) return (alternatives) => alternatives - 1;
  // Spread by the golden ratio, as the first choices of near seeds are the same.
  let state = (variant * 2_654_435_769) % 2 ** 32;
  return (alternatives) => {
    // The constants of Numerical Recipes.
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * alternatives);
  };
}

/** Returns a function that finds the statement at the first frame of a stack. */
function siteFinder({ program, sites }: Source): (stack: string) => Site | undefined {
  const found = new Map<string, Site | undefined>();
  const find = (stack: string): Site | undefined => {
    const [, file = '', line, column] = /file:\/\/([^()]+):(\d+):(\d+)/.exec(stack) ?? [];
    const lines = program.getSourceFile(file)?.text.split('\n') ?? [];
    const at = lines.slice(0, Number(line) - 1).join(' ').length + Number(column);
    // The innermost one: a fragment is inside of a statement.
    return sites.findLast((site) => file === join(ROOT, site.file) && site.start <= at && at <= site.end);
  };
  return (stack) => {
    if (!found.has(stack)) found.set(stack, find(stack));
    return found.get(stack);
  };
}

/** Calls the exported functions of the files that take a pool, and returns the texts of their statements. */
export async function recordTexts(source: Source, files: readonly string[]): Promise<Texts> {
  const { checker, program, sites } = source;
  const texts = new Map(sites.map((site) => [site, new Set(site.text === undefined ? [] : [site.text])]));
  const siteAt = siteFinder(source);
  let call: { choose: Choose; executed: string[]; hasPool: boolean };

  const execute = async (command: () => Command, site?: Site): Promise<Rows<readonly unknown[]>> => {
    const { text } = command();
    const { choose, executed } = call;
    if (executed.push(text) > MAX_STATEMENTS) throw new Error('The call executes statements without end');
    if (site !== undefined) texts.get(site)?.add(text);
    const isEmpty = executed.filter((one) => one === text).length > MAX_ROWS || choose(4) === 3;
    const rows = isEmpty ? [] : [site === undefined ? {} : makerOf(site.row)(choose)];
    return Object.assign(rows, { count: rows.length });
  };
  const inPart = async (...args: unknown[]) => (args.at(-1) as (tx: unknown) => unknown)(sql);
  // The statement keeps the stack of its first use in the process, which may be that of an earlier test.
  const located = (...args: Parameters<Queryable>) => {
    const origin = { stack: '' };
    Error.captureStackTrace(origin, located);
    return createTag((command) => execute(command, siteAt(origin.stack)))(...args);
  };
  const sql = Object.assign(located, createTag(execute)) as Queryable;
  const ofPool = { begin: inPart, reserve: async () => sql };
  Object.assign(sql, ofPool, { reads: sql, release: () => {}, [Symbol.dispose]: () => {} });
  const { makerOf, propertyOf } = makersOf(checker, () => {
    call.hasPool = true;
    return sql;
  });

  const awaited = (type: Type | undefined): Type | undefined =>
    type?.getSymbol()?.name === 'Promise' && type.isTypeReference() ? checker.getTypeArguments(type)[0] : type;

  type Signature = { parameters: readonly Make[]; result: Type | undefined };
  const signatures = new Map<number, Signature | undefined>();
  /** Each question to the compiler is a message to its process, so each type is read once. */
  const signatureOf = (type: Type): Signature | undefined => {
    if (!signatures.has(type.id)) {
      const [signature] = checker.getSignaturesOfType(type, SignatureKind.Call);
      const read = signature && {
        parameters: signature.getParameters().map(propertyOf),
        result: awaited(checker.getReturnTypeOfSignature(signature)),
      };
      signatures.set(type.id, read);
    }
    return signatures.get(type.id);
  };

  /** Calls a function, and those that it returns. */
  const run = async (value: unknown, type: Type | undefined, depth = 0): Promise<void> => {
    if (type === undefined || depth > MAX_DEPTH || value === null || value === sql) return;
    if (typeof value === 'function') {
      const signature = signatureOf(type);
      const args = signature?.parameters.map((make) => make(call.choose)) ?? [];
      if (signature === undefined || !call.hasPool) return;
      const result: unknown = await (value as (...all: unknown[]) => unknown)(...args);
      await run(result, signature.result, depth + 1);
    } else if (Array.isArray(value)) {
      const [element] = type.isTypeReference() ? checker.getTypeArguments(type) : [];
      for (const one of value) await run(one, element, depth);
    } else if (typeof value === 'object') {
      for (const symbol of checker.getPropertiesOfType(type)) {
        const own = Object.getOwnPropertyDescriptor(value, symbol.name)?.value as unknown;
        if (typeof own === 'function') await run(own, checker.getTypeOfSymbol(symbol), depth);
      }
    }
  };

  for (const file of files) {
    const parsed = program.getSourceFile(join(ROOT, file));
    const module = parsed && checker.getSymbolAtLocation(parsed);
    const exported = (await import(pathToFileURL(join(ROOT, file)).href)) as Readonly<Record<string, unknown>>;
    for (const symbol of module === undefined ? [] : checker.getExportsOfModule(module)) {
      const value = exported[symbol.name];
      if (typeof value !== 'function') continue;
      const type = checker.getTypeOfSymbol(symbol);
      for (let variant = 0; variant < VARIANTS; variant += 1) {
        call = { choose: chooseIn(variant), executed: [], hasPool: false };
        // Functions refuse some values: what they executed before counts.
        await run(value, type).catch(() => {});
      }
    }
  }
  return texts;
}
