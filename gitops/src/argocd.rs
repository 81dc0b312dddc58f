//! Argo CD's health scripts: Lua 5.1 with as little of its library as Argo CD
//! gives them by default.

use mlua::{Lua, LuaOptions, StdLib, Table};
use serde_json::Value;

/// What Argo CD shows beside a resource.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// One of [`STATUSES`].
    pub status: String,
    /// For people.
    #[serde(default)]
    pub message: String,
}

/// What a script may say. (`Missing` and `Unknown` are Argo CD's own.)
pub const STATUSES: &[&str] = &["Healthy", "Progressing", "Suspended", "Degraded"];

/// What is wrong with a script.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be run, or fails.
    #[error("the script failed")]
    Script(#[from] mlua::Error),
    /// It says what Argo CD does not know.
    #[error("the script says {0:?}; Argo CD knows {STATUSES:?}")]
    Status(String),
}

/// A script that can be asked.
#[derive(Clone, Debug)]
pub struct Script(String);

impl Script {
    /// This script.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What the script says of an object. Each time in a state of its own, as
    /// in Argo CD.
    ///
    /// # Errors
    /// When the script fails.
    pub fn health(&self, object: &Value) -> Result<Health, Error> {
        // Argo CD opens base, table and package, and an `os` of its own for dates. Neither `string`
        // nor `math` nor `io` is there unless an administrator asks for them.
        let lua = Lua::new_with(StdLib::TABLE, LuaOptions::default())?;
        lua.globals().set("obj", lua_value(&lua, object)?)?;
        let answer: Table = lua.load(&self.0).set_name("health.lua").eval()?;
        let status: String = answer.get("status")?;
        let message: Option<String> = answer.get("message")?;
        if !STATUSES.contains(&status.as_str()) {
            return Err(Error::Status(status));
        }
        Ok(Health { status, message: message.unwrap_or_default() })
    }
}

/// An object as a script sees it: `null` is absence, numbers are floats, lists
/// begin with one.
fn lua_value(lua: &Lua, value: &Value) -> mlua::Result<mlua::Value> {
    Ok(match value {
        Value::Null => mlua::Value::Nil,
        Value::Bool(value) => mlua::Value::Boolean(*value),
        Value::Number(number) => mlua::Value::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => mlua::Value::String(lua.create_string(text)?),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| lua_value(lua, item)).collect::<mlua::Result<_>>()?;
            mlua::Value::Table(lua.create_sequence_from(items)?)
        }
        Value::Object(fields) => {
            let table = lua.create_table()?;
            for (name, field) in fields {
                table.set(name.as_str(), lua_value(lua, field)?)?;
            }
            mlua::Value::Table(table)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn fails(script: &str, with: &str) {
        let error = Script::new(script).health(&json!({})).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error}: {cause}").contains(with), "{error}: {cause}");
    }

    #[test]
    fn what_argo_cd_would_refuse_is_refused() {
        fails("return {status = 'Fine'}", "Argo CD knows");
        fails("return {status = string.upper('healthy')}", "string");
        fails("return {status = os.date()}", "os");
        fails("this is no Lua", "health.lua");
    }

    #[test]
    fn lists_texts_numbers_and_nothing_arrive_as_lua_has_them() {
        let script = Script::new(
            "local n = 0; for _, c in ipairs(obj.list) do n = n + c end
             if obj.nothing == nil and obj.deep.yes and n == 6 then return {status = 'Healthy', message = obj.text} end
             return {status = 'Degraded'}",
        );
        let object = json!({"list": [1, 2, 3], "nothing": null, "deep": {"yes": true}, "text": "ß"});
        let health = script.health(&object).unwrap();
        assert_eq!(health, Health { status: "Healthy".to_owned(), message: "ß".to_owned() });
    }
}
