/** Reads Siren, and lists what HAL does not have of it: classes, titles, and actions with their fields. */
import assert from 'node:assert/strict';
import sirenParser, { type SirenAction, type SirenEntity, type SirenField } from 'siren-parser';
import { sirenFaults } from './siren-schema.ts';

/** Returns the entity that the parser reads from a valid text. */
export function readSiren(text: string): SirenEntity {
  assert.deepEqual(sirenFaults(JSON.parse(text)), []);
  const entity = sirenParser.default(text);
  const names = (entity.actions ?? []).map(({ name }) => name);
  assert.equal(new Set(names).size, names.length, 'names of actions are unique');
  for (const { name, fields = [] } of entity.actions ?? []) {
    assert.equal(
      new Set(fields.map((field) => field.name)).size,
      fields.length,
      `names of fields of ${name} are unique`,
    );
  }
  return entity;
}

/** Returns a text without its wording. */
type Take = (text: string) => string;

const quoted = (text: string | undefined, take: Take): string => (text === undefined ? '' : ` "${take(text)}"`);

function valueOf({ value }: SirenField, take: Take): string {
  if (value === undefined) return '';
  if (!Array.isArray(value)) return ` = ${typeof value === 'string' ? take(value) : value}`;
  const choices = value.map(
    (choice) => `${choice.value}${quoted(choice.title, take)}${choice.selected === true ? '*' : ''}`,
  );
  return ` = ${choices.join(', ')}`;
}

function fieldLine(field: SirenField, take: Take): string {
  const { name, type, min, max, title } = field;
  const limits = min === undefined && max === undefined ? '' : ` ${min ?? ''}..${max ?? ''}`;
  return `  ${name}: ${type} (${field.class.join(' ')})${limits}${quoted(title, take)}${valueOf(field, take)}`;
}

function actionLines(place: string, action: SirenAction, take: Take): string[] {
  const { name, method, href, type, title, fields = [] } = action;
  return [
    `${place} ${name}: ${method} ${href}${fields.length > 0 ? ` ${type}` : ''}${quoted(title, take)}`,
    ...fields.map((field) => fieldLine(field, take)),
  ];
}

/** Lists an entity, its actions and the entities within it. A title that the link `self` has as well is `self`. */
export function outlineOf(place: string, entity: SirenEntity, take: Take): string[] {
  const { title, actions = [], entities = [] } = entity;
  const isOfSelf = title !== undefined && title === entity.getLink('self')?.title;
  return [
    `${place}: ${entity.class.join(' ')}${isOfSelf ? ' self' : quoted(title, take)}`,
    ...actions.flatMap((action) => actionLines(place, action, take)),
    ...entities.flatMap((child) =>
      outlineOf(`${place} > ${child.rel?.join(' ')}`.replace(/http\S*\/rels\//, ''), child, take),
    ),
  ];
}
